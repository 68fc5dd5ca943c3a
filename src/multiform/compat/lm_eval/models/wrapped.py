"""ModelLM: a model of Multiform that answers instances, for code that asks models as lm-eval's are asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TypeVar

from multiform.calls import overridden
from multiform.compat.lm_eval.api.instance import Instance
from multiform.compat.lm_eval.api.model import LM
from multiform.errors import ModelError
from multiform.models import Model, models
from multiform.requests import FailedRequest, GenerationRequest, LoglikelihoodRequest, Response, RollingRequest

T = TypeVar("T")
_QUESTIONS = ("loglikelihood", "loglikelihood_rolling", "generate_until")


class ModelLM(LM):
    """Asks the model that it wraps; an evaluation asks that one directly, with all that it can do."""

    #: The name under which Multiform knows the model.
    model_name: ClassVar[str]

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self.wrapped = self._made(arguments)

    def _made(self, arguments: dict[str, Any]) -> Model:
        return models.get(self.model_name)(**arguments)

    def as_multiform_model(self) -> Model | None:
        """The wrapped model; None where a subclass answers by its own code."""
        return None if overridden(type(self), ModelLM, (*_QUESTIONS, "apply_chat_template")) else self.wrapped

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        converted = [LoglikelihoodRequest.of(*request.args[:2]) for request in requests]
        return [
            (output.loglikelihood, output.is_greedy)
            for output in _ordered(self.wrapped.loglikelihood(converted), converted)
        ]

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        converted = [RollingRequest(request.args[0]) for request in requests]
        return [output.loglikelihood for output in _ordered(self.wrapped.loglikelihood_rolling(converted), converted)]

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        converted = [GenerationRequest.of(request.args[0], request.args[1], n) for n, request in enumerate(requests)]
        return [output.text for output in _ordered(self.wrapped.generate(converted), converted)]

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return self.wrapped.apply_chat_template(chat_history, add_generation_prompt=add_generation_prompt)

    @property
    def tokenizer_name(self) -> str:
        return self.wrapped.chat_template_name()

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        return self.wrapped.chat_template_text()

    def get_model_info(self) -> dict[str, Any]:
        """What results say about the model."""
        return self.wrapped.info()


def _ordered(responses: Iterable[Response[T | FailedRequest]], asked: Sequence[Any]) -> list[T]:
    """The outputs in the order of what was asked; an error where a request has failed."""
    outputs: dict[int, T] = {}
    for position, output in responses:
        if isinstance(output, FailedRequest):
            raise ModelError(f"request {position} failed: {output.reason}")
        outputs[position] = output
    return [outputs[position] for position in range(len(asked))]
