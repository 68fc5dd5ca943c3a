"""FormatConfig: the layout of a prompt, what is scored, and how the prediction is extracted."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from multiform.errors import ConfigError, excerpt, nearest
from multiform.labels import LabelSpec, split_solution
from multiform.prompts.template import compile_template, has_markup
from multiform.registry import Registry
from multiform.schema import check_keys, check_values


class Dialect(Protocol):
    """A styler or template: another way to write a format."""

    def format_with(self, changes: Mapping[str, Any]) -> FormatConfig:
        """The format, with other arguments of the styler or template, or other fields."""


#: The names of stylers and templates: looked up after the registered formats, and never part of ``@all``.
dialect_names: Registry[Callable[[], Dialect]] = Registry("style")


OutputType = Literal["multiple_choice", "generate_until", "loglikelihood", "loglikelihood_rolling"]
Scored = Literal["labels", "texts", "gold", "generation"]

_OUTPUT_TYPES: dict[str, OutputType] = {
    "labels": "multiple_choice",
    "texts": "multiple_choice",
    "gold": "loglikelihood",
    "generation": "generate_until",
}
#: Fields that have another value where choices have no labels: their default and that value.
Replacements = Mapping[str, tuple[Any, Any]]

#: The texts that may be templates, in the order in which a prompt has them.
TEMPLATES = (
    *("instruction", "question_prefix", "question_suffix", "choices_prefix"),
    *("answer_instruction", "answer_prompt", "gen_prefix"),
)
_HINT = "see multiform docs formats"


def _is_complete(cls: type[FormatConfig]) -> bool:
    """Whether the fields of a class are those that it declares: it is a dataclass, or changes no field.

    A class is registered when it is defined, before its dataclass decorator runs, which may be missing or fail.
    """
    attributes = vars(cls)
    if "__dataclass_params__" in attributes:  # the decorator has begun
        return "__dataclass_fields__" in attributes
    changed = {*attributes, *inspect.get_annotations(cls)}
    return not changed & {field.name for field in fields(cls)}


formats: Registry[type[FormatConfig]] = Registry("format", group="multiform.formats")


@dataclass(frozen=True, kw_only=True)
class FormatConfig:
    """A prompt format: the layout of a prompt, what is scored, and how the prediction is extracted.

    A prompt is laid out as ``instruction + question_prefix + question + question_suffix [+ section_separator
    + choices_prefix + choices] + section_separator + answer_instruction + answer_prompt``, then ``target_delimiter``
    and the answer. An `instruction` or `answer_instruction` that does not end in white space is followed by
    `section_separator`.

    A subclass with a `format_name` is registered under that name, and `formats:` and ``@`` find it::

        @dataclass(frozen=True, kw_only=True)
        class Brackets(FormatConfig):
            format_name = "brackets"
            choice_labels: LabelSpec | None = "letters"
            choice_format: str = "({label}) {choice}"
    """

    format_name: ClassVar[str] = ""
    #: The limit of tokens if neither the task nor `generation_kwargs` sets one.
    default_max_gen_toks: ClassVar[int | Literal["context"]] = 256
    #: The models that the format is meant for: "base" continues texts, "chat" follows instructions.
    meant_for: ClassVar[Literal["base", "chat", "any"]] = "any"
    #: Whether ``@all`` has the format.
    in_all: ClassVar[bool] = True
    #: Whether the format is a control, which is shown beside other forms and not compared with them.
    is_control: ClassVar[bool] = False
    #: Whether the model thinks first, and the choices are scored after its thought.
    thinks: ClassVar[bool] = False
    #: Whether the prompt has the question, and what it is about.
    shows_question: ClassVar[bool] = True

    #: Text before every prompt; may hold Jinja, and the variables `_num_choices`, `_choice_labels`, ...
    instruction: str | None = None
    #: Where the instruction goes: with every few-shot example and the question ("examples"), or once, before the
    #: examples ("start") or after them, with the question ("question").
    instruction_at: Literal["examples", "start", "question"] = "examples"
    question_prefix: str = "Question: "
    #: Text after the question, such as " ______".
    question_suffix: str = ""
    #: Text before the choices, such as "Options: ".
    choices_prefix: str = ""
    #: "letters", "numbers", "lower", "roman", a list of labels, or None for choices without labels.
    choice_labels: LabelSpec | None = None
    #: How a choice is written: ``{label}`` and ``{choice}`` are filled in.
    choice_format: str = "{label}. {choice}"
    choice_delimiter: str = "\n"
    #: Whether the choices stand in the prompt; None means: when they have labels.
    show_choices: bool | None = None
    section_separator: str = "\n"
    answer_instruction: str | None = None
    #: Asks for the answer; None leaves this section out, and the separator before it.
    answer_prompt: str | None = "Answer:"
    #: The beginning of the completion, added to the prompt.
    gen_prefix: str | None = None
    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"
    #: The answer of a few-shot example, with ``{answer}`` and ``{rationale}``; None: in the words the prompt asks for.
    fewshot_answer: str | None = None
    #: What is scored: the labels of the choices, their texts, the gold text alone, or a generated completion.
    scored: Scored = "texts"
    #: What a completion is compared with; None means: the label of the gold choice if labels are shown.
    answer_as: Literal["label", "text"] | None = None
    #: The scorer that extracts and scores predictions: its name, or a dict with `type` and `kwargs`.
    scorer: str | Mapping[str, Any] | None = None
    #: Metrics; None means those that go with `scored`.
    metric_list: tuple[Mapping[str, Any], ...] | None = None
    #: Generation arguments, which override those of the task.
    generation_kwargs: Mapping[str, Any] | None = None
    #: Axes on which the format may be varied, beside the built-in ones; see docs/variations.md.
    variations: Mapping[str, Any] | None = None
    #: The code of the language whose words the format has, if it was selected as ``format:code``.
    language: str | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name: Any = cls.__dict__.get("format_name")
        if not isinstance(name, str | None):
            message = f"format_name is {excerpt(name)}, not text"
            raise ConfigError(message, where=cls.__name__, hint="name the format, or leave format_name out")
        if name:
            formats.register(name)(cls)

    def __post_init__(self) -> None:
        for name, value in self._canonical_values():
            object.__setattr__(self, name, value)
        changed = {key: value for key, value in vars(self).items() if value is not getattr(FormatConfig, key, self)}
        check_values(FormatConfig, changed, hint=_HINT)
        for name in TEMPLATES:
            try:
                compile_template(getattr(self, name) or "")
            except ConfigError as error:
                raise error.relocate(name) from error
        if isinstance(labels := self.choice_labels, tuple):
            self._check(bool(labels) and len(set(labels)) == len(labels), "choice_labels", "distinct labels")
        if self.scored == "labels" and labels is None:
            hint = "set choice_labels, or score texts"
            raise ConfigError("labels are scored but there are none", where="scored", hint=hint)
        answer = self.fewshot_answer
        self._check(answer is None or "{answer}" in answer, "fewshot_answer", "text with {answer} in it, or null")
        if answer is not None and not self.generates:
            message = f"scored is {self.scored}: an example then shows what is scored and nothing else"
            hint = "leave fewshot_answer out, or set scored: generation"
            raise ConfigError(message, where="fewshot_answer", hint=hint)
        self._check("{choice}" in self.choice_format, "choice_format", "text with {choice} in it")

    def _canonical_values(self) -> Iterator[tuple[str, Any]]:
        """The fields whose stored value differs from the given one, or whose default depends on other fields."""
        if self.choice_labels is None:
            replacements = self._without_labels().items()
            yield from ((name, value) for name, (default, value) in replacements if getattr(self, name) == default)
        if isinstance(self.choice_labels, list | tuple):
            yield "choice_labels", tuple(map(str, self.choice_labels))
        metrics: Any = self.metric_list
        if isinstance(metrics, list | tuple):
            yield "metric_list", tuple({"metric": metric} if isinstance(metric, str) else metric for metric in metrics)

    def _without_labels(self) -> Replacements:
        """The fields that have another value where choices have no labels."""
        return {}

    def _check(self, right: bool, name: str, expected: str) -> None:
        if not right:
            value = excerpt(getattr(self, name))
            raise ConfigError(f"expected {expected}, got {value}", where=name, hint=_HINT)

    @property
    def output_type(self) -> OutputType:
        """The type of request that follows from what is scored."""
        return _OUTPUT_TYPES[self.scored]

    @property
    def generates(self) -> bool:
        """Whether the model writes: its answer, or a thought before the choices are scored."""
        return self.scored == "generation" or self.thinks

    @property
    def shows_choices(self) -> bool:
        """Whether the choices are part of the prompt."""
        return self.choice_labels is not None if self.show_choices is None else self.show_choices

    @property
    def needs_choices(self) -> bool:
        """Whether a task without `doc_to_choice` cannot run under this format."""
        return self.shows_choices or self.output_type == "multiple_choice"

    def of_shots(self) -> FormatConfig:
        """The format of few-shot examples: without the instruction if the prompt has it only once."""
        return self if self.instruction_at == "examples" else replace(self, instruction=None)

    def until(self) -> list[str]:
        """The stop sequences of a generation, unless `generation_kwargs` sets others."""
        return [self.fewshot_delimiter]

    def shot_answer(self) -> str:
        """The answer of a few-shot example: text with ``{answer}``, and ``{rationale}`` if the format shows one.

        A scored continuation is shown as it is scored. A generated answer is written as the prompt asks for it:

        >>> FormatConfig(scored="generation", answer_prompt='End with "I choose [letter]".').shot_answer()
        'I choose {answer}'
        """
        if self.fewshot_answer is not None:
            return self.fewshot_answer
        if self.scored != "generation":
            return "{answer}"
        return asked_statement(self.instruction, self.answer_instruction, self.answer_prompt)

    @classmethod
    def by_name(cls, name: str, overrides: Mapping[str, Any] | None = None) -> FormatConfig:
        """The format of that name, registered or from another dialect, with `overrides` of its fields."""
        overrides = dict(overrides or {})
        if name not in formats and name in dialect_names:
            return dialect_names.get(name)().format_with(overrides)
        if name not in formats:
            message = f"unknown format '{name}'"
            raise ConfigError(message, hint=nearest(name, [*formats, *dialect_names], listed="formats"))
        entry: Any = formats.get(name)
        if isinstance(entry, type) and not _is_complete(entry):
            message = f"format '{name}' cannot be used: {entry.__name__} is not a complete dataclass"
            raise ConfigError(message, hint="decorate it with @dataclass(frozen=True, kw_only=True)")
        base = None if isinstance(entry, type) else entry()
        known = {field.name for field in fields(entry if base is None else base)}
        check_keys(f"format '{name}'", known, overrides)
        format: FormatConfig = entry(**overrides) if base is None else replace(base, **overrides)
        return format

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values that YAML and JSON can hold."""
        names = [field.name for field in fields(self) if field.name != "language" or self.language is not None]
        return {name: _plain(getattr(self, name)) for name in names}


F = TypeVar("F", bound=Callable[..., FormatConfig])


def register_format(name: str) -> Callable[[F], F]:
    """Register a format class, or a function that returns a format, under a name."""
    return formats.register(name)  # type: ignore[return-value]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


# The answers of few-shot examples, written in the words that the prompt asks for.

_QUOTED = re.compile(r"""[“„]([^“”„\n]*)[“”]|«([^«»\n]*)»|"([^"\n]*)\"""")
_NAME = re.compile(r"\[[^][\n]+\]")
_PLACEHOLDER = re.compile(r"\{(answer|rationale)\}")


def asked_statement(*texts: str | None) -> str:
    """The last quoted statement that the texts of a prompt ask for, with ``{answer}`` in its place, else ``{answer}``.

    >>> asked_statement('Your response should end with "The final answer is [answer]" where [answer] is a number.')
    'The final answer is {answer}'
    >>> asked_statement("Answer with the letter alone.", None)
    '{answer}'
    """
    for text in reversed(texts):
        quoted = ["".join(groups) for groups in _QUOTED.findall(text or "")]
        statements = [quote for quote in quoted if _NAME.search(quote) and not has_markup(quote)]
        if statements:
            return _NAME.sub("{answer}", statements[-1], count=1)
    return "{answer}"


def written_answer(template: str, answer: str, rationale: str = "") -> str:
    r"""The answer of a few-shot example, with its rationale if the template has ``{rationale}``.

    >>> written_answer("{rationale}\nThe final answer is {answer}", "4", "Two and two are four.")
    'Two and two are four.\nThe final answer is 4'
    >>> written_answer("{rationale}\nThe final answer is {answer}", "4")
    'The final answer is 4'

    A worked solution is split into rationale and result, unless it ends in the template's statement already:

    >>> written_answer("{rationale}\nThe final answer is {answer}", "2 + 2 = 4\n#### 4")
    '2 + 2 = 4\nThe final answer is 4'
    >>> written_answer("{rationale}\nThe final answer is {answer}", "2 + 2 = 4. The final answer is 4.")
    '2 + 2 = 4. The final answer is 4.'
    """
    if template == "{answer}":
        return answer
    statement = _PLACEHOLDER.sub("\0", template).rpartition("\0")[0].rpartition("\0")[2].strip().casefold()
    for text in (answer, rationale if "{rationale}" in template else ""):
        if statement and statement in text.casefold():
            return text.strip()
    solution, result = split_solution(answer)
    reasons = split_solution(rationale)[0] or rationale.strip() or solution
    if not reasons:
        template = re.sub(r"\{rationale\}\s*", "", template)
    values = {"answer": result, "rationale": reasons}
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


def after_prefix(answer: str, prefix: str) -> str:
    """The rest of an answer, after a beginning that is part of the prompt already.

    >>> after_prefix("The best answer is C", "The best answer is"), after_prefix("C", "The best answer is")
    (' C', 'C')
    """
    return answer.removeprefix(prefix.rstrip()) if prefix.strip() else answer
