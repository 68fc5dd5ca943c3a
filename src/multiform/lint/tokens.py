"""Checks that need a tokenizer: the tokens of labels, of the border of prompt and answer, and of whole prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from multiform.errors import ModelError, UsageError, excerpt
from multiform.forms import Sample
from multiform.lint.findings import Finding, Hit
from multiform.lint.prompts import Prompts, are_labels
from multiform.prompts.prompt import chat_messages
from multiform.requests import GenerationRequest, LoglikelihoodRequest

if TYPE_CHECKING:  # a tokenizer is only needed if one is named
    from multiform.models.tokenizer import Encoder
    from multiform.models.torch.tree import Tokens
    from multiform.prompts.prompt import ChatTemplate

#: The keys of a task that messages come from.
_KEYS = {"system": "description", "user": "doc_to_text", "assistant": "doc_to_target"}
#: The number of documents that are tokenized together.
_CHUNK = 64
#: Tokens of a completion if a task does not limit it.
_MAX_GEN_TOKS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """A tokenizer, its chat template, and how many tokens its model reads, if that is known."""

    encoder: Encoder
    max_length: int | None
    chat_template: ChatTemplate | None

    @classmethod
    def load(cls, name: str, *, max_length: int | None = None) -> Tokenizer:
        """The tokenizer of a folder or of the hub, or of the bundled model for "bundled"; no model is loaded."""
        from multiform.models.tokenizer import load_encoder
        from multiform.prompts.chat import ChatTemplate as TokenizerChat

        folder = name
        if name == "bundled":
            from multiform.models.hf.model import bundled_folder

            folder = str(bundled_folder())
        try:
            encoder = load_encoder(folder, None, None)
        except ModelError as error:
            raise UsageError(error.what, where="--tokenizer", hint="give a folder or a hub name") from error
        tokenizer: Any = encoder.tokenizer
        limit = getattr(tokenizer, "model_max_length", None)
        known = int(limit) if limit is not None and limit < 10**12 else None  # no limit is a number of thirty digits
        chat = TokenizerChat(tokenizer=tokenizer, model=name, apply=tokenizer.apply_chat_template)
        template = chat.apply_chat_template if tokenizer.chat_template else None
        return cls(encoder=encoder, max_length=max_length or known, chat_template=template)


def token_findings(prompts: Prompts, tokenizer: Tokenizer) -> list[Finding]:
    """Findings about the labels that all documents share: of more than one token, or of different lengths."""
    form = prompts.form
    ranked = {sample.choices for sample in prompts.samples if len(sample.choices) > 1}
    longest = max(ranked, key=len, default=())
    shared = all(longest[: len(choices)] == choices for choices in ranked)
    if not longest or not shared or form.renderer.several_inputs:
        return []
    sample = next(sample for sample in prompts.samples if sample.choices == longest)
    numbers = dict(zip(longest, (scored for _, _, scored in _borders(sample, tokenizer.encoder)), strict=False))
    shown = ", ".join(f"{excerpt(choice, 20)} {number}" for choice, number in numbers.items())
    scores_labels = form.format.scored == "labels" if form.format is not None else are_labels(longest)
    problems: dict[str, str] = {}
    if scores_labels and any(number > 1 for number in numbers.values()):
        problems["label_not_one_token"] = "labels that are scored have several tokens"
    if len(set(numbers.values())) > 1:
        problems["uneven_labels"] = "answers that all documents share differ in their number of tokens"
    place = form.where("formats" if form.format is not None else "doc_to_choice")
    return [Finding.of_form(form, code, place, what, example=f"tokens: {shown}") for code, what in problems.items()]


def _borders(sample: Sample, encoder: Encoder) -> Iterator[tuple[LoglikelihoodRequest, bool, int]]:
    """Each scored continuation: its request, whether a token spans its border, and its number of tokens.

    White space at the end of a context, such as the line break of a chat template, is scored with the continuation
    but is not part of it.
    """
    from multiform.models.tokenizer import move_whitespace

    sample_requests = (instance.request for instance in sample.instances)
    requests = [request for request in sample_requests if isinstance(request, LoglikelihoodRequest) and request.context]
    moved = {request: move_whitespace(request.context, request.continuation) for request in requests}
    texts = [text for request in requests for text in (request.context, moved[request][0])]
    encoded = encoder.encode([*texts, *(request.context + request.continuation for request in requests)])
    for request, (context, _) in moved.items():
        spaced, stripped = encoded[request.context], encoded[context]
        full = encoded[request.context + request.continuation]
        before = max(_common(full, spaced), _common(full, stripped))
        yield request, _common(full, stripped) < len(stripped), len(full) - before


def _common(full: Tokens, context: Tokens) -> int:
    """How many tokens two texts have in common at their beginning."""
    pairs = enumerate(zip(full, context, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(full), len(context)))


def token_hits(prompts: Prompts, tokenizer: Tokenizer) -> Iterator[Hit]:
    """Tokens across borders, two first tokens, prompts that are too long, and what a chat template strips."""
    for start in range(0, len(prompts.samples), _CHUNK):
        samples = prompts.samples[start : start + _CHUNK]
        for sample in samples:
            spanning = next((request for request, spans, _ in _borders(sample, tokenizer.encoder) if spans), None)
            if spanning is not None:
                example = f"{excerpt(spanning.context[-15:], 40)} + {excerpt(spanning.continuation[:15], 40)}"
                place, what = prompts.form.where(prompts.delimiter_key), "a token spans the border of prompt and answer"
                yield Hit(sample.doc_id, "token_across_border", place, what, example)
        yield from _length_hits(prompts, samples, tokenizer)
    yield from _bos_hits(prompts, tokenizer)
    if prompts.chat:
        yield from _chat_hits(prompts)


def _length_hits(prompts: Prompts, samples: Sequence[Sample], tokenizer: Tokenizer) -> Iterator[Hit]:
    if tokenizer.max_length is None:
        return
    texts: list[tuple[int, str, int]] = []
    for sample in samples:
        for request in (instance.request for instance in sample.instances):
            if isinstance(request, LoglikelihoodRequest):  # the last token is not an input
                texts.append((sample.doc_id, request.context + request.continuation, -1))
            elif isinstance(request, GenerationRequest):
                room = int(request.gen_kwargs.get("max_gen_toks", _MAX_GEN_TOKS))
                texts.append((sample.doc_id, request.context, room))
    encoded = tokenizer.encoder.encode([text for _, text, _ in texts])
    longest: dict[int, int] = {}
    for doc_id, text, room in texts:
        longest[doc_id] = max(longest.get(doc_id, 0), len(encoded[text]) + room)
    what = f"prompts and completions are longer than the {tokenizer.max_length} tokens that the model reads"
    place = prompts.form.where("num_fewshot")
    for doc_id, length in longest.items():
        if length > tokenizer.max_length:
            yield Hit(doc_id, "truncated_prompts", place, what, f"{length} tokens")


def _bos_hits(prompts: Prompts, tokenizer: Tokenizer) -> Iterator[Hit]:
    bos, token = tokenizer.encoder.tokenizer.bos_token, tokenizer.encoder.tokenizer.bos_token_id
    if not isinstance(bos, str) or not bos:
        return
    written = {sample.doc_id: sample.prompt for sample in prompts.samples}
    for probe in prompts.probes:
        prompt = written[probe.doc_id]
        begin = tokenizer.encoder.encode([prompt])[prompt][:2].tolist()
        in_message = next((message for message in probe.turns if bos in message.content), None)
        if begin == [token, token] or in_message is not None:
            text = prompt if in_message is None else in_message.content
            key = "description" if in_message is not None and in_message.role == "system" else "doc_to_text"
            what = f"the prompt's text has the token {excerpt(bos, 30)}, which is added to prompts"
            yield Hit(probe.doc_id, "doubled_bos", prompts.form.where(key), what, excerpt(text[:60], 80))


def _chat_hits(prompts: Prompts) -> Iterator[Hit]:
    template = prompts.chat_template
    assert template is not None
    multiturn = prompts.form.settings.multiturn
    for probe in prompts.probes:
        messages = chat_messages(probe.turns, multiturn=multiturn)
        written = template(messages, add_generation_prompt=messages[-1]["role"] != "assistant")
        for message in messages:
            text = message["content"]
            if text in written:
                continue
            lost = "white space around" if text.strip() in written else "a part of"
            what = f"the chat template strips {lost} the {message['role']}'s message"
            place = prompts.form.where(_KEYS[message["role"]])
            yield Hit(probe.doc_id, "chat_template_strips", place, what, excerpt(text[-60:], 90))
            break
