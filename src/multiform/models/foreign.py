"""Models that were written for lm-eval: objects with `loglikelihood`, `loglikelihood_rolling` and `generate_until`.

Duck typing, so that ours and those of the real package both do.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from multiform.arguments import has_parameter
from multiform.errors import ModelError, UsageError
from multiform.models.arguments import is_context_limit
from multiform.models.model import Completions, Loglikelihoods, Model, no_chat_template
from multiform.prompts.prompt import Messages
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, Request, RollingRequest

OutputType = Literal["loglikelihood", "loglikelihood_rolling", "generate_until", "multiple_choice"]
_QUESTIONS = ("loglikelihood", "loglikelihood_rolling", "generate_until")


@dataclass
class LMEvalInstance:
    """lm-eval's `Instance`: a request with its document; `metadata` is (task, number of the document, repeats).

    >>> LMEvalInstance("loglikelihood", {}, ("Question?", " yes"), 0, metadata=("t", 3, 1)).doc_id
    3
    """

    request_type: OutputType
    doc: dict[str, Any]
    arguments: tuple[Any, ...]
    idx: int
    metadata: tuple[str | None, int | None, int | None] = (None, None, None)
    resps: list[Any] = field(default_factory=list)
    filtered_resps: dict[str, Any] = field(default_factory=dict)
    task_name: str | None = None
    doc_id: int | None = None
    repeats: int | None = None

    def __post_init__(self) -> None:
        self.task_name, self.doc_id, self.repeats = self.metadata

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments, always as a tuple."""
        return self.arguments if isinstance(self.arguments, tuple) else (self.arguments,)


def as_model(candidate: Any) -> Model:
    """The object as a `Model`: itself, the model that it wraps, or an adapter for an lm-eval model."""
    if isinstance(candidate, Model):
        return candidate
    inner = getattr(candidate, "as_multiform_model", None)
    if callable(inner):
        wrapped = inner()
        return wrapped if isinstance(wrapped, Model) else ForeignModel(candidate)
    missing = [name for name in _QUESTIONS if not callable(getattr(candidate, name, None))]
    if missing or isinstance(candidate, type):
        message = f"expected a model's name or a model, got {_description(candidate)}"
        if missing and len(missing) < len(_QUESTIONS):
            message = f"{_description(candidate)} has no {' and no '.join(missing)}"
        hint = "give a Model, an lm_eval LM, or HFLM(pretrained=...) for a model of transformers"
        raise UsageError(message, where="model", hint=hint)
    return ForeignModel(candidate)


class ForeignModel(Model):
    """Asks an lm-eval model; it gets each distinct request once, and never the document that it is about.

    Its responses are stored only on request, as only the object knows what they depend on. It may say so
    with an attribute `identity`, which is equal exactly when responses are equal.
    """

    handles_stop = True  # all its responses are there when the first is yielded

    def __init__(self, lm: Any) -> None:
        self.lm = lm
        self.name = str(getattr(lm, "name", None) or type(lm).__name__)
        kind = f"{type(lm).__module__}.{type(lm).__qualname__}"
        self.identity = f"{kind} {getattr(lm, 'identity', None) or uuid.uuid4()}"

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Loglikelihoods:
        for position, pair in enumerate(self._ask("loglikelihood", requests)):
            loglikelihood, greedy = pair
            yield position, LLOutput(float(loglikelihood), bool(greedy))

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Loglikelihoods:
        for position, value in enumerate(self._ask("loglikelihood_rolling", requests)):
            yield position, LLOutput(float(value[0] if isinstance(value, tuple | list) else value))

    def generate(self, requests: Sequence[GenerationRequest]) -> Completions:
        if any(is_context_limit(request.gen_kwargs) for request in requests):
            message = "completions that fill the context need a limit in tokens with this model"
            raise UsageError(message, where=self.name, hint="set one: --gen_kwargs max_gen_toks=2048")
        for position, text in enumerate(self._ask("generate_until", requests)):
            yield position, Completion(str(text))

    def apply_chat_template(self, messages: Messages, *, add_generation_prompt: bool = True) -> str:
        apply = getattr(self.lm, "apply_chat_template", None)
        if apply is None:
            raise no_chat_template(self.name)
        self.check_parts(messages)
        history = [dict(message) for message in messages]
        knows = has_parameter(apply, "add_generation_prompt")
        try:
            return str(apply(history, add_generation_prompt=add_generation_prompt) if knows else apply(history))
        except NotImplementedError as error:
            hint = "write its apply_chat_template, or run without a chat template"
            raise ModelError(f"model '{self.name}' has no chat template", hint=hint) from error

    def chat_template_name(self) -> str:
        try:
            return str(self.lm.tokenizer_name)
        except (AttributeError, NotImplementedError):
            return self.name

    def chat_template_text(self) -> str | None:
        template = getattr(self.lm, "chat_template", None)
        try:
            return template(True) if callable(template) else None
        except (AttributeError, NotImplementedError, TypeError):  # a model that was not written with one in mind
            return None

    def info(self) -> dict[str, Any]:
        tell = getattr(self.lm, "get_model_info", None)
        return dict(tell()) if callable(tell) else {}

    def tokenizer_info(self) -> dict[str, Any]:
        # One that is loaded when it is first asked for is left where it is.
        tokenizer = getattr(self.lm, "__dict__", {}).get("tokenizer")
        if not tokenizer:
            return {}
        names = ("pad_token", "eos_token", "bos_token")
        tokens = {name: [getattr(tokenizer, name, None), str(getattr(tokenizer, f"{name}_id", None))] for name in names}
        more = {name: getattr(self.lm, name, None) for name in ("eot_token_id", "max_length")}
        return {**{f"tokenizer_{name}": token for name, token in tokens.items()}, **more}

    def _ask(self, question: OutputType, requests: Sequence[Request]) -> list[Any]:
        instances = [LMEvalInstance(question, {}, each.arguments, 0, metadata=(None, None, 1)) for each in requests]
        returned = getattr(self.lm, question)(instances)
        outputs = list(returned) if returned is not None else []
        if len(outputs) != len(requests):
            message = f"{type(self.lm).__name__}.{question} gave {len(outputs)} outputs for {len(requests)} requests"
            raise ModelError(message, hint="return a list with one output for each request, in their order")
        return outputs


def _description(candidate: Any) -> str:
    return (
        f"the class {candidate.__name__}" if isinstance(candidate, type) else f"an object of {type(candidate).__name__}"
    )
