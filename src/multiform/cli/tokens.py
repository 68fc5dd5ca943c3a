"""The tokens of a prompt as `multiform show --tokens` prints them, and what the chat template made of the messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from multiform.errors import UsageError

if TYPE_CHECKING:
    from multiform.forms import Sample
    from multiform.models import Model
    from multiform.models.tokenizer import Encoder
    from multiform.prompts.prompt import ChatTemplate, Content


class RecordedTemplate:
    """A chat template that keeps the messages of the prompts that it wrote."""

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template
        self._messages: dict[str, Sequence[Mapping[str, Any]]] = {}

    def __call__(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Content:
        content = self._template(messages, **options)
        if isinstance(content, str):
            self._messages[content] = messages
        return content

    def changes(self, prompt: str) -> list[str]:
        """What the template stripped from the messages of a prompt and added; nothing where it did not write it."""
        written = [text for text in self._messages if prompt.startswith(text)]
        return template_changes(self._messages[max(written, key=len)], prompt) if written else []


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
