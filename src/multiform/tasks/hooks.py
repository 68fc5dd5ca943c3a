"""The fields of a configuration that call the hooks of a Python task."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from multiform.errors import DataError, shorten
from multiform.fields import Doc, FieldSpec
from multiform.formats import BPBStyle, OutputType, ResponseType
from multiform.formats.measures import BitsPerByteLoglikelihood
from multiform.formats.perturbation import Perturbation

if TYPE_CHECKING:
    from multiform.tasks.styled import BaseTask

#: The methods that give the data.
DATA = ("_get_raw_question", "_get_choices", "_get_correct_index")
#: The hooks that a styler stands behind: a class that overrides one is no format any more.
STYLED = (
    "_get_instruction_text",
    "_get_fewshot_target_text",
    "_get_ground_truth",
    "_get_cue_text",
    "_get_possible_completions",
    "_get_initial_prompt_text",
    "_get_system_prompt_text",
)


def hook(task: BaseTask[Any], name: str, subject: Any) -> Callable[[Doc], Any]:
    """A method of the task as a field: it gets a copy of the document, with the subject beside its columns."""
    method = getattr(task, name)

    def call(doc: Doc) -> Any:
        return method({"subject": subject, **doc})

    call.__name__, call.__qualname__, call.__module__ = method.__name__, method.__qualname__, method.__module__
    call.__wrapped__ = method  # type: ignore[attr-defined]
    return call


class HookedPrompt:
    """The instruction and, of the question that is asked, the cue."""

    def __init__(self, task: BaseTask[Any], subject: Any, *, cue: bool, noise: Perturbation | None = None) -> None:
        self.task, self.subject, self.cue, self.noise = task, subject, cue, noise
        self.__module__, self.__qualname__ = type(task).__module__, f"{type(task).__qualname__}._get_instruction_text"

    def __call__(self, doc: Doc) -> str:
        item = {"subject": self.subject, **doc}
        text = self.task._get_instruction_text(item)
        text = text if self.noise is None else self.noise(text)
        return text + self.task._get_cue_text(item) if self.cue else text

    def perturbed(self, noise: Perturbation) -> HookedPrompt:
        """With noise in the question, or in the whole instruction where the class writes that itself."""
        from multiform.tasks.styled import BaseTask

        if type(self.task)._get_instruction_text is not BaseTask._get_instruction_text:
            return HookedPrompt(self.task, self.subject, cue=self.cue, noise=noise)
        noisy = copy.copy(self.task)
        asked = self.task._get_raw_question
        noisy._get_raw_question = lambda item: noise(asked(item))  # type: ignore[method-assign]
        return HookedPrompt(noisy, self.subject, cue=self.cue)


def hook_fields(task: BaseTask[Any], subject: Any, metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The configuration of a task whose own hooks make prompts and answers; their texts carry all delimiters."""
    output_type = _output_type(task)
    truth = hook(task, "_get_ground_truth", subject)
    scored: dict[str, Any] = {"doc_to_choice": None, "doc_to_target": truth}
    if output_type == "multiple_choice":
        completions = hook(task, "_get_possible_completions", subject)
        scored = {"doc_to_choice": completions, "doc_to_target": _index(truth, completions)}
    elif output_type == "generate_until":
        stops = {"until": task.stop_sequences or ["\n\n"], "max_gen_toks": task.max_tokens or 256}
        stripped = [{"function": "remove_whitespace"}, {"function": "take_first"}]
        scored["generation_kwargs"] = {**stops, "do_sample": False, "temperature": 0.0}
        scored["filter_list"] = [{"name": "none", "filter": stripped}]
    return {
        "output_type": output_type,
        "doc_to_text": HookedPrompt(task, subject, cue=True),
        **scored,
        "target_delimiter": "",
        "description": _opening(task, subject),
        "metric_list": [dict(metric) for metric in metrics],
        "fewshot_config": {
            "doc_to_text": HookedPrompt(task, subject, cue=False),
            "doc_to_choice": None,
            "doc_to_target": hook(task, "_get_fewshot_target_text", subject),
        },
    }


def _output_type(task: BaseTask[Any]) -> OutputType:
    if task.RESPONSE_TYPE is ResponseType.COMPLETION:
        return "generate_until"
    gold = isinstance(getattr(task, "TASK_STYLER", None), BPBStyle) or list(task.METRICS) == [BitsPerByteLoglikelihood]
    return "loglikelihood" if gold else "multiple_choice"


def _index(truth: Callable[[Doc], Any], completions: Callable[[Doc], Any]) -> Callable[[Doc], Any]:
    """Where the right answers are among the completions."""

    def index(doc: Doc) -> int | list[int]:
        right, every = truth(doc), completions(doc)
        found = [every.index(one) for one in (right if isinstance(right, list) else [right]) if one in every]
        if not found:
            what = f"the answer {shorten(right)} is none of the completions {shorten(every, 120)}"
            raise DataError(what, hint="check _get_ground_truth and _get_possible_completions")
        return found if len(found) > 1 else found[0]

    index.__qualname__, index.__module__ = truth.__qualname__, truth.__module__
    return index


def _opening(task: BaseTask[Any], subject: Any) -> FieldSpec:
    """The system prompt and what stands before the first example, where the class has any."""
    from multiform.tasks.styled import BaseTask

    kind = type(task)
    same = kind._get_initial_prompt_text is BaseTask._get_initial_prompt_text
    if same and kind._get_system_prompt_text is BaseTask._get_system_prompt_text:
        return ""

    def opening(doc: Doc) -> str:
        item = {"subject": subject, **doc}
        texts = [task._get_system_prompt_text(item) or "", task._get_initial_prompt_text(item)]
        return "".join(f"{text}\n\n" for text in texts if text)

    opening.__qualname__, opening.__module__ = f"{kind.__qualname__}._get_initial_prompt_text", kind.__module__
    return opening
