"""`multiform show`: print the exact prompts of a task, as text, as templates or token by token."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from multiform.cli import options as flags
from multiform.cli.parser import command, flag
from multiform.errors import UsageError, excerpt
from multiform.run.values import SOURCES

if TYPE_CHECKING:
    from multiform.forms import Form, Sample
    from multiform.models import Model
    from multiform.models.tokenizer import Encoder
    from multiform.prompts.prompt import ChatTemplate, Content
    from multiform.requests import Instance


@command(
    "show the exact prompts of a task in one or several formats",
    flag("tasks", "a task with a format, as for run --tasks", nargs="+", metavar="T[@F]"),
    flag("--doc", "which documents (default: 0)", metavar="N|A:B|all"),
    flags.option("limit", default=None, help="the first N documents, or a fraction below 1: --doc 0:N"),
    flag("--jinja", "the templates instead of the prompts"),
    flag("--tokens", "the prompts in the tokens of the model"),
    flag("--json", "one JSON object per line and document"),
    flags.option_groups("prompts", "model", SOURCES),
    flags.no_code,
    examples="""\
examples:
  multiform show quiz@mcqa                       the first document
  multiform show quiz@cot --doc 3 --num_fewshot 2
  multiform show quiz@all --doc 0:2 --json       one JSON object per document
  multiform show quiz@generate --jinja           the templates that the format makes
""",
)
def show(options: argparse.Namespace) -> None:
    """Print prompts, templates or JSON lines."""
    from multiform.run.checks import check_output_types
    from multiform.run.displays import Silent
    from multiform.run.executors import LocalExecutor
    from multiform.run.setup import load_forms
    from multiform.tasks.functions import unusable_scoring_kept

    if options.tokens and (options.json or options.jinja):
        raise UsageError("tokens are printed as text", where="--tokens", hint="leave out --json and --jinja")
    run = flags.run_options(options, tasks=",".join(options.tasks), limit=None)
    with unusable_scoring_kept():  # prompts need no metrics
        forms, _ = load_forms(run)
    check_output_types(forms)
    needs_model = run.apply_chat_template or options.tokens
    model = LocalExecutor().load(run.model, run.model_arguments, Silent()) if needs_model else None
    encoder = encoder_of(model) if model is not None and options.tokens else None
    template = model.apply_chat_template if model is not None and run.apply_chat_template else None
    written: dict[str, Sequence[Mapping[str, Any]]] = {}
    if template is not None and encoder is not None:
        template = record_messages(template, written)
    for form in forms:
        if options.jinja:
            _print_templates(form, as_json=options.json)
            continue
        indexes = _selected_range(options, len(form.eval_docs))
        # Few-shot examples are drawn for every document in order, so that a document has the same ones as in a run.
        for doc_id, doc in form.docs(limit=max(indexes) + 1):
            sample = form.sample(doc_id, doc, template)
            if doc_id in indexes and encoder is not None:
                print(f"=== {form.name} · doc {doc_id}")
                texts = [text for text in written if sample.prompt.startswith(text)]
                for change in template_changes(written[max(texts, key=len)], sample.prompt) if texts else ():
                    print(f"--- chat template, {change}")
                print_tokens(encoder, sample)
            elif doc_id in indexes:
                _print_sample(form, sample, as_json=options.json)
                if form.renderer.output_kind.has_stages and not options.json:
                    _print_next_stages(form, sample, template)


def _selected_range(options: argparse.Namespace, total: int) -> range:
    """The documents that `--doc` names by ``N``, ``A:B`` or ``all``, or the first ones that `--limit` asks for."""
    text = options.doc or "0"
    if options.limit is not None:
        if options.doc is not None:
            raise UsageError("--doc names the documents already", where="--limit", hint="leave one of them out")
        text = f"0:{math.ceil(total * options.limit) if options.limit < 1 else int(options.limit)}"
    hint = f"write N, A:B or all; there are documents 0 to {total - 1}"
    first, colon, last = text.partition(":")
    try:
        start = int(first or 0) if colon else 0 if text == "all" else int(first)
        stop = total if text == "all" or (colon and not last) else int(last) if colon else start + 1
    except ValueError as error:
        raise UsageError(f"expected N, A:B or all, got {excerpt(text)}", where="--doc", hint=hint) from error
    indexes = range(start, min(stop, total))
    if start < 0 or not indexes:
        raise UsageError(f"no document {text}", where="--doc", hint=hint)
    return indexes


def _print_sample(form: Form, sample: Sample, *, as_json: bool) -> None:
    from multiform.results.export import json_line

    requests = [_request(instance) for instance in sample.instances]
    if not as_json:
        print(f"=== {form.name} · doc {sample.doc_id} · {_number(requests)} · target {sample.target!r}")
        _print_requests(requests)
        return
    described = {
        "form": form.name,
        "task": form.task_name,
        "format": form.format_label,
        "doc_id": sample.doc_id,
        "doc": dict(sample.doc),
        "requests": requests,
        "target": sample.target,
        "choices": form.renderer.fields(sample.doc).shown_choices,
    }
    print(json_line(described))


def _print_requests(requests: Sequence[dict[str, Any]]) -> None:
    """Print each context once, with the continuations or generations after it."""
    for context in dict.fromkeys(request["context"] for request in requests):
        print(context)
        after = [request for request in requests if request["context"] == context]
        for media in after[0].get("media", ()):
            print(f"--- {media['kind']} {media['size']} sha256 {media['sha256'][:12]}")
        for request in after:
            is_generated = "gen_kwargs" in request
            text = json.dumps(request["gen_kwargs" if is_generated else "continuation"], ensure_ascii=False)
            print(f"--- {'generate ' if is_generated else ''}{text}")
    print()


def _print_next_stages(form: Form, sample: Sample, template: ChatTemplate | None) -> None:
    """Print the requests that follow once the first ones have responses, with "…" in the place of each response."""
    from multiform.requests import Completion, GenerationRequest

    while following := form.continue_sample(sample, [Completion("…")] * len(sample.instances), template):
        added = following.instances[len(sample.instances) :]
        print(f"=== {form.name} · doc {sample.doc_id} · then, with … for what the model wrote")
        _print_requests([_request(instance) for instance in added])
        if not isinstance(added[0].request, GenerationRequest):  # scored, which no text stands for
            return
        sample = following


def _request(instance: Instance) -> dict[str, Any]:
    from multiform.requests import GenerationRequest, LoglikelihoodRequest

    request = instance.request
    described: dict[str, Any]
    if isinstance(request, LoglikelihoodRequest):
        described = {"type": "loglikelihood", "context": request.context, "continuation": request.continuation}
    elif isinstance(request, GenerationRequest):
        described = {"type": "generate_until", "context": request.context, "gen_kwargs": request.gen_kwargs}
    else:
        return {"type": "loglikelihood_rolling", "context": "", "continuation": request.text}
    return {**described, "media": [media.summary() for media in request.media]} if request.media else described


_KINDS = {"generate_until": "generation", "loglikelihood_rolling": "whole text", "loglikelihood": "continuation"}


def _number(requests: Sequence[dict[str, Any]]) -> str:
    """The number of the requests, and what they are."""
    kinds = {_KINDS[request["type"]] for request in requests}
    return f"{len(requests)} {kinds.pop() if len(kinds) == 1 else 'request'}{'s' if len(requests) > 1 else ''}"


def _print_templates(form: Form, *, as_json: bool) -> None:
    from multiform.results.export import json_line
    from multiform.tasks.keys import plain

    templates = {key: plain(getattr(form.config, key)) for key in ("doc_to_text", "doc_to_choice", "doc_to_target")}
    keys = ("description", "gen_prefix", "target_delimiter", "fewshot_delimiter")
    layout = {key: plain(getattr(form.config, key)) for key in keys}
    layout["description"] = layout["description"] or None
    if as_json:
        print(json_line({"form": form.name, "format": form.format_label, **templates, **layout}))
        return
    print(f"=== {form.name}")
    for key, value in templates.items():
        print(f"--- {key}\n{value}")
    for key, value in layout.items():
        if value is not None:
            print(f"--- {key}: {json.dumps(value, ensure_ascii=False)}")
    print()


def record_messages(template: ChatTemplate, written: dict[str, Sequence[Mapping[str, Any]]]) -> ChatTemplate:
    """The chat template, which then enters the messages of each prompt that it writes in `written`."""

    def write(messages: Sequence[Mapping[str, Any]], **options: Any) -> Content:
        content = template(messages, **options)
        if isinstance(content, str):
            written[content] = messages
        return content

    return write


def encoder_of(model: Model) -> Encoder:
    """The encoder of a model; an error where the tokenizer is on a server."""
    if getattr(model, "tokenizer_name", "") is None or not hasattr(model, "encoder"):
        hint = "use --model hf or vllm, or openai-completions with tokenizer=NAME"
        raise UsageError(f"model '{model.name}' has no tokenizer here", where="--tokens", hint=hint)
    encoder: Encoder = model.encoder
    return encoder


def print_tokens(encoder: Encoder, sample: Sample) -> None:
    """Print every prompt token by token, and below it the tokens of each continuation."""
    from multiform.requests import GenerationRequest, LoglikelihoodRequest

    shown = ""
    for request in (instance.request for instance in sample.instances):
        if isinstance(request, GenerationRequest):
            context, continuation = encoder.prompts([request.context])[request.context].tolist(), None
        elif isinstance(request, LoglikelihoodRequest):
            [pair] = encoder.pairs([(request.context, request.continuation)])
            context, continuation = pair.context, pair.tokens[pair.start :].tolist()
        else:
            context, continuation = encoder.encode([request.text])[request.text].tolist(), None
        text = token_text(encoder, context)
        if text != shown:
            print(f"--- {len(context)} tokens\n{text}")
            shown = text
        if continuation is not None:
            print(f"--- {len(continuation)} more: {token_text(encoder, continuation)}")
    print()


def token_text(encoder: Encoder, ids: Sequence[int]) -> str:
    """The tokens with bars between them; special tokens in pointed brackets, and line breaks also as lines."""
    tokenizer = encoder.tokenizer
    special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    parts = []
    for token in ids:
        text = str(tokenizer.decode([token]))
        if token in special:
            parts.append(f"⟨{text}⟩")
        elif "�" in text:  # a part of a character
            parts.append(str(tokenizer.convert_ids_to_tokens(token)))
        else:
            parts.append(text.replace("\t", "\\t").replace("\r", "\\r").replace("\n", "\\n\n"))
    return "│".join(parts)


def template_changes(messages: Sequence[Mapping[str, Any]], prompt: str) -> list[str]:
    r"""What a chat template strips from messages and adds to them, in words.

    >>> template_changes([{"role": "user", "content": "2 + 2? "}], "<|user|>2 + 2?<|assistant|>")
    ['stripped from the user: white space', "added: '<|user|>', '<|assistant|>'"]
    """
    changes, added, rest = [], [], prompt
    for message in messages:
        content = message["content"]
        texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
        for text in filter(None, texts):
            kept = text if text in rest else text.strip()
            if kept not in rest:
                changes.append(f"not in the prompt as it is: what the {message['role']} says")
                continue
            if kept != text:
                changes.append(f"stripped from the {message['role']}: white space")
            before, _, rest = rest.partition(kept)
            added.append(before)
    added.append(rest)
    pieces = ", ".join(repr(piece) for piece in added if piece)
    return [*dict.fromkeys(changes), *([f"added: {pieces}"] if pieces else [])]
