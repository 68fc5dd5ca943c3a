"""LM and TemplateLM, the base classes of models written for lm-eval; ModelLM, a model of Multiform as one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from multiform.arguments import overridden_methods, parse_arguments
from multiform.errors import ModelError
from multiform.models import Model, models
from multiform.models.foreign import LMEvalInstance as Instance
from multiform.models.tokenizer import move_whitespace
from multiform.requests import FailedRequest, GenerationRequest, LoglikelihoodRequest, Response, RollingRequest

L = TypeVar("L", bound="LM")
T = TypeVar("T")
_QUESTIONS = ("loglikelihood", "loglikelihood_rolling", "generate_until")


class CacheHook:
    """The hook that models call with single responses; it does nothing, as Multiform stores all of them itself."""

    def __init__(self, cachinglm: Any = None) -> None:
        self.dbdict = None

    def add_partial(self, attr: str, req: Iterable[Any], res: Any) -> None:
        """Receive one response."""


class LM(ABC):
    """A model that responds to lists of instances."""

    _rank = 0
    _world_size = 1
    _device: Any = None
    cache_hook = CacheHook()

    @abstractmethod
    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """Of each (context, continuation): the log-likelihood, and whether it is the greedy continuation."""

    @abstractmethod
    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """Of each (text,): its log-likelihood as a whole."""

    @abstractmethod
    def generate_until(self, requests: list[Instance]) -> list[str]:
        """Of each (context, generation arguments): the completion."""

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The messages as one string."""
        raise NotImplementedError(f"{type(self).__name__} has no apply_chat_template: run without a chat template")

    @classmethod
    def create_from_arg_string(cls: type[L], arg_string: str, additional_config: Mapping[str, Any] | None = None) -> L:
        """The model of arguments like ``pretrained=x,dtype=float32``."""
        return cls.create_from_arg_obj(parse_arguments(arg_string, where="model_args"), additional_config)

    @classmethod
    def create_from_arg_obj(
        cls: type[L], arg_dict: Mapping[str, Any], additional_config: Mapping[str, Any] | None = None
    ) -> L:
        """The model of a mapping of arguments; of the additional ones those that are set."""
        more = {key: value for key, value in (additional_config or {}).items() if value is not None}
        return cls(**arg_dict, **more)

    @property
    def device(self) -> Any:
        return self._device

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def world_size(self) -> int:
        return self._world_size

    @property
    def tokenizer_name(self) -> str:
        """What tells chat templates apart."""
        raise NotImplementedError(f"{type(self).__name__} has no tokenizer_name, which a chat template needs")

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """The chat template itself."""
        return ""

    def set_cache_hook(self, cache_hook: CacheHook) -> None:
        self.cache_hook = cache_hook


class TemplateLM(LM):
    """A model that scores tokens: a subclass encodes, and scores pairs of encoded texts."""

    tokenizer: Any = None
    backend = "causal"

    @property
    @abstractmethod
    def eot_token_id(self) -> int:
        """The token that ends a text."""

    @property
    def prefix_token_id(self) -> int:
        """The token that stands before a text without a context."""
        return self.eot_token_id

    @abstractmethod
    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        """The tokens of a text."""

    @abstractmethod
    def _loglikelihood_tokens(
        self, requests: list[tuple[tuple[str, str], list[int], list[int]]], **kwargs: Any
    ) -> list[tuple[float, bool]]:
        """Of each (texts, tokens of the context, tokens of the continuation): log-likelihood and greediness."""

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """The tokens of both; white space that ends the context belongs to the continuation."""
        bare, continuation = move_whitespace(context, continuation)
        if self.backend == "seq2seq":
            return self.tok_encode(bare), self.tok_encode(continuation, add_special_tokens=False)
        first = self.tok_encode(bare)
        return first, self.tok_encode(bare + continuation)[len(first) :]

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Encode all pairs and have them scored."""
        encoded: list[tuple[tuple[str, str], list[int], list[int]]] = []
        for context, continuation in (request.args for request in requests):
            if context:
                encoded.append(((context, continuation), *self._encode_pair(context, continuation)))
                continue
            tokens = self.tok_encode(continuation, add_special_tokens=False)
            prefix = self.prefix_token_id
            has_prefix = tokens[:1] == [prefix] and len(tokens) > 1
            encoded.append(((context, continuation), *(([prefix], tokens[1:]) if has_prefix else ([prefix], tokens))))
        return self._loglikelihood_tokens(encoded, disable_tqdm=disable_tqdm)

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """The tokenizer's template: its only one, or the one of a name."""
        if chat_template is False:
            return None
        template = "" if self.tokenizer is None else getattr(self.tokenizer, "chat_template", None)
        if isinstance(template, Mapping):
            return template.get(chat_template if isinstance(chat_template, str) else "default")
        return template


class ModelLM(LM):
    """Asks the model that it wraps; an evaluation asks that one directly, with all that it can do."""

    #: The name under which Multiform knows the model.
    model_name: ClassVar[str]

    def __init__(self, **arguments: Any) -> None:
        self.wrapped = self._load(arguments)

    def _load(self, arguments: dict[str, Any]) -> Model:
        return models.get(self.model_name)(**arguments)

    def as_multiform_model(self) -> Model | None:
        """The wrapped model; None where a subclass answers by its own code."""
        return None if overridden_methods(type(self), ModelLM, (*_QUESTIONS, "apply_chat_template")) else self.wrapped

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        converted = [LoglikelihoodRequest(*request.args[:2]) for request in requests]
        return [
            (output.loglikelihood, output.is_greedy)
            for output in _outputs_in_order(self.wrapped.loglikelihood(converted), converted)
        ]

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        converted = [RollingRequest(request.args[0]) for request in requests]
        return [
            output.loglikelihood
            for output in _outputs_in_order(self.wrapped.loglikelihood_rolling(converted), converted)
        ]

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        converted = [GenerationRequest.of(request.args[0], request.args[1], n) for n, request in enumerate(requests)]
        return [output.text for output in _outputs_in_order(self.wrapped.generate(converted), converted)]

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> Any:
        return self.wrapped.apply_chat_template(chat_history, add_generation_prompt=add_generation_prompt)

    @property
    def tokenizer_name(self) -> str:
        return self.wrapped.chat_template_name()

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        return self.wrapped.chat_template_text()

    def get_model_info(self) -> dict[str, Any]:
        """What results say about the model."""
        return self.wrapped.info()


def _outputs_in_order(responses: Iterable[Response[T | FailedRequest]], asked: Sequence[Any]) -> list[T]:
    """The outputs in the order of what was asked; an error where a request has failed."""
    outputs: dict[int, T] = {}
    for position, output in responses:
        if isinstance(output, FailedRequest):
            raise ModelError(f"request {position} failed: {output.reason}")
        outputs[position] = output
    return [outputs[position] for position in range(len(asked))]


class DummyLM(ModelLM):
    """Answers that depend on the request alone; lm-eval's are random."""

    model_name = "dummy"
