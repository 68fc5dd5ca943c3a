"""The built-in formats. Each docstring shows the prompt, up to the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from multiform.errors import ConfigError
from multiform.formats.base import FormatConfig, Replacements, Scored
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

    def _without_labels(self) -> Replacements:
        return {"scored": ("labels", "texts")}


@dataclass(frozen=True, kw_only=True)
class ClozeFormat(FormatConfig):
    """Choices not shown; their texts are scored.

    Question: What is the capital of France?
    Answer:
    """

    format_name = "cloze"
    meant_for = "base"


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
    meant_for = "chat"

    instruction: str | None = CHOOSE
    choice_labels: LabelSpec | None = "letters"
    answer_prompt: str = END_WITH_LABEL
    gen_prefix: str | None = "The best answer is"
    target_delimiter: str = "\n"
    scored: Scored = "generation"
    scorer: str | Mapping[str, Any] | None = "choice_match"

    def _without_labels(self) -> Replacements:
        return {
            "instruction": (CHOOSE, CHOOSE_TEXT if self.show_choices else FIND_TEXT),
            "answer_prompt": (END_WITH_LABEL, END_WITH_TEXT),
            "scorer": ("choice_match", "final_answer"),
        }


@dataclass(frozen=True, kw_only=True)
class COTGenFormat(FormatConfig):
    """The model reasons, and its final answer is extracted from the completion.

    Given the following problem, reason step by step to find the final answer.
    Problem: What is the capital of France?
    Your response should end with "The final answer is [answer]" where [answer] is the response to the problem.

    A few-shot example shows its rationale, where the task maps one, and then "The final answer is …".
    """

    format_name = "cot"
    meant_for = "chat"
    default_max_gen_toks: ClassVar[int | Literal["context"]] = 512

    instruction: str | None = "Given the following problem, reason step by step to find the final answer.\n"
    question_prefix: str = "Problem: "
    answer_prompt: str = (
        'Your response should end with "The final answer is [answer]" where [answer] is the response to the problem.'
    )
    target_delimiter: str = "\n"
    scored: Scored = "generation"
    scorer: str | Mapping[str, Any] | None = "final_answer"

    def until(self) -> list[str]:
        """The beginning of another problem; blank lines are not stop sequences, as reasoning may have some."""
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
    meant_for = "base"

    scored: Scored = "gold"


_REASON_TO_CHOOSE = (
    "Given the following question and {{ _num_choices }} candidate answers ({{ _choice_list_and }}), "
    "reason step by step to choose the best answer.\n"
)


@dataclass(frozen=True, kw_only=True)
class MCQCOTFormat(COTGenFormat):
    """Choices shown with labels; the model reasons, and the label that it settles on is extracted.

    Given the following question and 2 candidate answers (A and B), reason step by step to choose the best answer.
    Question: What is the capital of France?
    A. Berlin
    B. Paris
    Your response should end with "The best answer is [answer_letter]" where the [answer_letter] is one of A or B.

    Nothing is prefilled, and a completion may fill the model's context. A few-shot example shows its rationale, where
    the task maps one.
    """

    format_name = "mcq_cot"
    default_max_gen_toks = "context"
    in_all = False

    instruction: str | None = _REASON_TO_CHOOSE
    question_prefix: str = "Question: "
    choice_labels: LabelSpec | None = "letters"
    answer_prompt: str = END_WITH_LABEL
    scorer: str | Mapping[str, Any] | None = "choice_match"

    def _without_labels(self) -> Replacements:
        """The model is asked for the text of the answer, as by `cot`."""
        asked = COTGenFormat.answer_prompt.replace("response to the problem", "answer to the question")
        reason = "Given the following question, reason step by step to find the final answer.\n"
        return {
            "instruction": (_REASON_TO_CHOOSE, reason),
            "answer_prompt": (END_WITH_LABEL, asked),
            "scorer": ("choice_match", "final_answer"),
        }


@dataclass(frozen=True, kw_only=True)
class ThinkFormat(MCQCOTFormat):
    """The prompt of `mcq_cot`; the model thinks, and then the labels are scored after its thought.

    Given the following question and 2 candidate answers (A and B), reason step by step to choose the best answer.
    Question: What is the capital of France?
    A. Berlin
    B. Paris
    Your response should end with "The best answer is [answer_letter]" where the [answer_letter] is one of A or B.

    With a chat template that has thoughts, the thought is the model's own; otherwise it is whatever the model writes
    before it would name the answer. A thought that reaches the token limit ends there. It is followed by
    `after_thought`, and then each label is scored, or each text if there are no labels (``choice_labels: null``).
    """

    format_name = "think"
    thinks = True

    scored: Scored = "labels"
    scorer: str | Mapping[str, Any] | None = None
    #: What stands between the thought and what is scored.
    after_thought: str = "The best answer is"

    def _without_labels(self) -> Replacements:
        after = ("The best answer is", "The final answer is")
        return {**super()._without_labels(), "scored": ("labels", "texts"), "after_thought": after}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scored not in ("labels", "texts"):
            message = f"after a thought, labels or texts are scored, not {self.scored}"
            raise ConfigError(message, where="scored", hint="use mcq_cot to have the answer generated")
        if not self.after_thought.strip():
            hint = 'give the beginning of the answer, e.g. "The best answer is"'
            raise ConfigError("it is empty, but marks the end of a thought", where="after_thought", hint=hint)
        if self.gen_prefix:
            message = "the answer begins after the thought, not in the prompt"
            raise ConfigError(message, where="gen_prefix", hint="give after_thought instead")

    def until(self) -> list[str]:
        """The beginning of the answer; a model's own thought ends only at its own end."""
        return [self.after_thought.strip()]

    def shot_answer(self) -> str:
        return self.fewshot_answer or f"{{rationale}}\n{self.after_thought.rstrip()} {{answer}}"


@dataclass(frozen=True, kw_only=True)
class OpenFormat(FormatConfig):
    """Choices not shown; the model gives a short answer of its own. A control beside the forms with choices.

    Answer the following question with a few words or a number, and nothing else.
    Question: What is the capital of France?
    Answer:

    The answer is matched by rules, with any of several references: as words, as numbers, and as mathematics where the
    reference is LaTeX. With ``scorer: {type: ai_judge}`` another model matches it.
    """

    format_name = "open"
    meant_for = "chat"
    in_all = False
    is_control = True

    instruction: str | None = "Answer the following question with a few words or a number, and nothing else.\n"
    scored: Scored = "generation"
    scorer: str | Mapping[str, Any] | None = "open_answer"

    def until(self) -> list[str]:
        """The beginning of another question; a model that reasons first may write blank lines."""
        return ["\n" + self.question_prefix.rstrip()] if self.question_prefix.strip() else [self.fewshot_delimiter]


@dataclass(frozen=True, kw_only=True)
class BlindFormat(MCQAFormat):
    """The prompt of `mcqa` without the question: a control that shows what the choices alone give away.

    A. Berlin
    B. Paris
    Answer:
    """

    format_name = "blind"
    in_all = False
    is_control = True
    shows_question = False

    question_prefix: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.shows_choices:
            raise ConfigError("blind shows the choices alone", where="show_choices", hint="leave show_choices out")
        for name in ("question_prefix", "question_suffix"):
            if getattr(self, name):
                raise ConfigError("blind shows no question", where=name, hint=f"leave {name} out")
