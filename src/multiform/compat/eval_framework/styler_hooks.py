"""StylerHooks: the hooks of a Python task that write its prompts and ground truth, by default with its styler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from multiform.formats import Language, ResponseType, TaskStyler
from multiform.tasks import Source
from multiform.tasks.source import FilePosition

#: The subject of a dataset that has none.
NO_SUBJECT = "no_subject"

#: The data-access methods.
DATA = ("_get_raw_question", "_get_choices", "_get_correct_index")
#: The hooks that the styler implements: a class that overrides one has no equivalent format.
STYLED = (
    "_get_instruction_text",
    "_get_fewshot_target_text",
    "_get_ground_truth",
    "_get_cue_text",
    "_get_possible_completions",
    "_get_initial_prompt_text",
    "_get_system_prompt_text",
    "_get_instruction_messages",
    "_get_example_messages",
    "_get_messages",
    "_apply_user_prompt_suffix",
    "_sample_fewshot_examples",
    "_create_samples",
    "_get_context",
    "post_process_generated_completion",
)
#: The hooks that load rows, which are called under every format.
LOADING = ("_load_dataset", "_load_hf_dataset", "_shuffle_splits")
#: Methods that a run does not call, so that overriding them is refused.
REFUSED = ("iterate_samples", "generate_completions")


class _FromStyler:
    """A class attribute whose default comes from the styler."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, task: object, cls: type[StylerHooks]) -> Any:
        styler = getattr(cls, "TASK_STYLER", None)
        if styler is None:
            raise AttributeError(f"{cls.__name__} has neither a TASK_STYLER nor {self.name.upper()} of its own")
        return getattr(styler, self.name)


class StylerHooks:
    """The attributes of a Python task, and the hooks that write the texts of a row."""

    NAME: str
    DATASET_PATH: str
    SAMPLE_SPLIT: str
    FEWSHOT_SPLIT: str | None = None
    SUBJECTS: Sequence[Any] = (NO_SUBJECT,)
    #: The revision of the dataset, or a JSON file of dataset paths and the revisions they are pinned to.
    HF_REVISION: str | None = None
    REVISION_LOCKFILE: Path | None = None
    LANGUAGE: ClassVar[Language | Mapping[str, Any] | None] = None
    TASK_STYLER: ClassVar[TaskStyler]
    #: Words of the question that perturbations do not change.
    PERTURBATION_UNMODIFIABLE_WORDS: ClassVar[Sequence[str] | None] = None
    #: Other keys of a task file, such as `process_docs` or `metadata`.
    CONFIG: ClassVar[Mapping[str, Any]] = {}
    #: The file and line of the class, for messages and for data files beside it.
    _defined: ClassVar[tuple[Path, int]]
    RESPONSE_TYPE: Any = _FromStyler("response_type")
    METRICS: Any = _FromStyler("metrics")

    # The data-access methods: a task defines those that its styler needs.

    def _get_raw_question(self, item: dict[str, Any]) -> str:
        raise NotImplementedError(f"write {type(self).__name__}._get_raw_question")

    def _get_choices(self, item: dict[str, Any]) -> list[str]:
        raise NotImplementedError(f"write {type(self).__name__}._get_choices")

    def _get_correct_index(self, item: dict[str, Any]) -> int:
        raise NotImplementedError(f"write {type(self).__name__}._get_correct_index")

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        return self.TASK_STYLER.get_instruction_text(self._get_raw_question(item), self._get_choices(item))

    def _get_fewshot_target_text(self, item: dict[str, Any]) -> str:
        if not hasattr(self, "TASK_STYLER"):
            truth = self._get_ground_truth(item)
            return str(truth[0] if isinstance(truth, list) else truth)
        return self.TASK_STYLER.get_fewshot_target_text(self._get_choices(item), self._get_correct_index(item))

    def _get_ground_truth(self, item: dict[str, Any]) -> str | list[str] | None:
        return self.TASK_STYLER.get_ground_truth(self._get_choices(item), self._get_correct_index(item))

    def _get_cue_text(self, item: dict[str, Any]) -> str:
        return self.TASK_STYLER.get_cue_text() if hasattr(self, "TASK_STYLER") else ""

    def _get_possible_completions(self, item: dict[str, Any]) -> list[str] | None:
        if not hasattr(self, "TASK_STYLER"):
            return None
        return self.TASK_STYLER.get_possible_completions(self._get_choices(item), self._get_correct_index(item))

    def _get_initial_prompt_text(self, item: dict[str, Any]) -> str:
        return ""

    def _get_system_prompt_text(self, item: dict[str, Any]) -> str | None:
        return None

    @classmethod
    def get_response_type(cls) -> ResponseType:
        """Whether the model generates a completion or scores given ones."""
        response_type: ResponseType = cls.RESPONSE_TYPE
        return response_type

    @classmethod
    def get_metrics(cls) -> list[Any]:
        """The metrics of the task: classes, names or mappings."""
        return list(cls.METRICS)

    def get_metadata(self) -> dict[str, Any]:
        """The metadata of the task: its dataset, splits, metrics and subjects."""
        measured = [getattr(metric, "NAME", str(metric)) for metric in self.get_metrics()]
        styled = self.TASK_STYLER.get_extra_metadata() if hasattr(self, "TASK_STYLER") else {}
        return {
            "dataset_path": self.DATASET_PATH,
            "sample_split": self.SAMPLE_SPLIT,
            "fewshot_split": self.FEWSHOT_SPLIT,
            "response_type": self.get_response_type().value,
            "metrics": measured,
            "subjects": [str(subject) for subject in self.SUBJECTS],
            **styled,
        }

    def _source(self) -> Source:
        """The file and line that define the class."""
        file, line = self._defined
        return Source(file, {(): FilePosition(file, line)})
