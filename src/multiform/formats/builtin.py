"""The built-in formats. Each docstring shows the prompt, up to the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from multiform.formats.base import FormatConfig, Scored
from multiform.labels import LabelSpec
from multiform.prompts.template import has_markup


@dataclass(frozen=True, kw_only=True)
class MCQAFormat(FormatConfig):
    """Choices shown with labels; the labels are scored.

    Question: What is the capital of France?
    A. Berlin
    B. Paris
    Answer:

    Without labels (``choice_labels: null``) there is nothing to score but the choices' texts, which are not shown
    either, unless `show_choices` is true.
    """

    format_name = "mcqa"

    choice_labels: LabelSpec | None = "letters"
    scored: Scored = "labels"

    def __post_init__(self) -> None:
        if self.choice_labels is None and self.scored == "labels":
            object.__setattr__(self, "scored", "texts")
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class ClozeFormat(FormatConfig):
    """Choices not shown; their texts are scored.

    Question: What is the capital of France?
    Answer:
    """

    format_name = "cloze"


@dataclass(frozen=True, kw_only=True)
class HybridFormat(MCQAFormat):
    """Choices shown with labels, their texts scored: the prompt of `mcqa` with the continuations of `cloze`."""

    format_name = "hybrid"

    scored: Scored = "texts"


#: The English texts of `generate`, which a language replaces.
CHOOSE = (
    "Given the following question and {{ _num_choices }} candidate answers ({{ _choice_list_and }}), "
    "choose the best answer.\n"
)
END_WITH_LABEL = (
    'Your response should end with "The best answer is [answer_letter]" '
    "where the [answer_letter] is one of {{ _choice_list_or }}."
)
CHOOSE_TEXT = "Given the following question and {{ _num_choices }} candidate answers, choose the best answer.\n"
FIND_TEXT = "Given the following question, find the best answer.\n"
END_WITH_TEXT = (
    'Your response should end with "The best answer is [answer]" where [answer] is the answer to the question.'
)


@dataclass(frozen=True, kw_only=True)
class GenerateFormat(FormatConfig):
    """Choices shown with labels; the model generates, and its choice is extracted from the completion.

    Given the following question and 2 candidate answers (A and B), choose the best answer.
    Question: What is the capital of France?
    A. Berlin
    B. Paris
    Your response should end with "The best answer is [answer_letter]" where the [answer_letter] is one of A or B.
    The best answer is

    Without labels (``choice_labels: null``) the model is asked for the text of the answer, also of a question that has
    no choices:

    Given the following question, find the best answer.
    Question: What is the capital of France?
    Your response should end with "The best answer is [answer]" where [answer] is the answer to the question.
    The best answer is
    """

    format_name = "generate"

    instruction: str | None = CHOOSE
    choice_labels: LabelSpec | None = "letters"
    answer_prompt: str = END_WITH_LABEL
    gen_prefix: str | None = "The best answer is"
    target_delimiter: str = "\n"
    scored: Scored = "generation"
    scorer: str | Mapping[str, Any] | None = "choice_match"

    def __post_init__(self) -> None:
        if self.choice_labels is None:
            self._replace("instruction", CHOOSE, CHOOSE_TEXT if self.show_choices else FIND_TEXT)
            self._replace("answer_prompt", END_WITH_LABEL, END_WITH_TEXT)
            self._replace("scorer", "choice_match", "final_answer")
        super().__post_init__()

    def _replace(self, name: str, default: str, value: str) -> None:
        """Set a field that has its default value to another one."""
        if getattr(self, name) == default:
            object.__setattr__(self, name, value)


@dataclass(frozen=True, kw_only=True)
class COTGenFormat(FormatConfig):
    """The model reasons, and its final answer is extracted from the completion.

    Given the following problem, reason step by step to find the final answer.
    Problem: What is the capital of France?
    Your response should end with "The final answer is [answer]" where [answer] is the response to the problem.

    A few-shot example shows its rationale, where the task maps one, and then "The final answer is …".
    """

    format_name = "cot"
    default_max_gen_toks = 512

    instruction: str | None = "Given the following problem, reason step by step to find the final answer.\n"
    question_prefix: str = "Problem: "
    answer_prompt: str = (
        'Your response should end with "The final answer is [answer]" where [answer] is the response to the problem.'
    )
    target_delimiter: str = "\n"
    scored: Scored = "generation"
    scorer: str | Mapping[str, Any] | None = "final_answer"

    def until(self) -> list[str]:
        """The beginning of another problem; blank lines are no stop sequences, as reasoning may have some."""
        stops = ["\n" + self.question_prefix.rstrip()] if self.question_prefix.strip() else []
        opening = (self.instruction or "").partition("\n")[0][:32]
        if opening and not has_markup(opening):
            stops.insert(0, self.fewshot_delimiter + opening)
        return stops or [self.fewshot_delimiter]

    def shot_answer(self) -> str:
        return super().shot_answer() if self.fewshot_answer is not None else "{rationale}\n" + super().shot_answer()


@dataclass(frozen=True, kw_only=True)
class BPBFormat(FormatConfig):
    """The prompt of `cloze`; only the gold answer is scored, in bits per byte: one request per document."""

    format_name = "bpb"

    scored: Scored = "gold"
