"""SampleHooks: the hooks of a Python task, which write the texts of its rows, load the rows and create samples."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import Self

from multiform.arguments import overridden_methods
from multiform.compat.eval_framework.samples import BaseMetricContext, Message, Role, Sample
from multiform.errors import ConfigError, UsageError, nearest
from multiform.formats.dialects.styler import ResponseType, TaskStyler
from multiform.formats.localization import Language
from multiform.tasks.config import TaskConfig
from multiform.tasks.datasets.documents import load_dataset
from multiform.tasks.keys import FilePosition, Source

logger = logging.getLogger("multiform")

#: The subject of a dataset that has none.
NO_SUBJECT = "no_subject"
#: The default seed of a task's random generator.
RANDOM_SEED = 42
#: The data-access methods.
DATA = ("_get_raw_question", "_get_choices", "_get_correct_index")
#: The hooks that the styler implements: a class that overrides one has no equivalent format.
STYLED = (
    *("_get_instruction_text", "_get_fewshot_target_text", "_get_ground_truth", "_get_cue_text"),
    *("_get_possible_completions", "_get_initial_prompt_text", "_get_system_prompt_text", "_get_instruction_messages"),
    *("_get_example_messages", "_get_messages", "_sample_fewshot_examples", "_create_samples", "_get_context"),
    "post_process_generated_completion",
)
#: The hooks that load rows, which are called under every format.
LOADING = ("_load_dataset", "_load_hf_dataset", "_shuffle_splits")
#: Methods that a run does not call, so that overriding them is refused.
REFUSED = ("iterate_samples", "generate_completions", "_apply_user_prompt_suffix")


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


class SampleHooks(StylerHooks):
    """Loads rows and creates one or more samples from each; a class may override every method.

    `dataset` has the rows by split, and `rnd` is the random generator of the hooks. A run sets both: rows are in the
    order of the dataset, and the generator of each row depends only on the seed and the index of the row.
    """

    dataset: Mapping[str, Sequence[dict[str, Any]]]

    def __init__(self, num_fewshot: int | None = None) -> None:
        self.num_fewshot = num_fewshot
        self.stop_sequences: list[str] | None = None
        self.max_tokens: int | None = None
        self.hf_revision: str | None = self._apply_hf_revision()
        self.rnd: random.Random | None = None
        self._mirror: Path | None = None
        #: Draws the few-shot examples in a run; outside of a run, `rnd` does.
        self._draw: Callable[[dict[str, Any]], list[dict[str, Any]]] | None = None

    @classmethod
    def with_overwrite(
        cls,
        num_fewshot: int,
        *,
        custom_subjects: list[str] | None = None,
        custom_hf_revision: str | None = None,
        seed: int | None = RANDOM_SEED,
    ) -> Self:
        """The task with other settings: few-shot examples, subjects, dataset revision, seed."""
        task = cls(num_fewshot=num_fewshot)
        task.rnd = random.Random(seed)
        task.hf_revision = task._apply_hf_revision(custom_hf_revision)
        known = {
            ",".join(map(str, subject)) if isinstance(subject, tuple) else str(subject): subject
            for subject in task.SUBJECTS
        }
        for name in custom_subjects or ():
            if name not in known:
                raise UsageError(f"no subject '{name}'", where=cls.NAME, hint=nearest(name, known, listed="subjects"))
        if custom_subjects:
            task.SUBJECTS = [subject for name, subject in known.items() if name in custom_subjects]
        return task

    def _apply_hf_revision(self, custom_hf_revision: str | None = None) -> str | None:
        """The revision of the dataset: the given one, else HF_REVISION, else that of the lock file."""
        revision = custom_hf_revision or self.HF_REVISION
        if revision or self.REVISION_LOCKFILE is None:
            return revision
        if not self.REVISION_LOCKFILE.is_file():
            logger.debug("%s: no lock file %s; the newest revision is used", self.NAME, self.REVISION_LOCKFILE)
            return None
        pinned = json.loads(self.REVISION_LOCKFILE.read_text(encoding="utf-8"))
        if self.DATASET_PATH not in pinned:
            message = f"the lock file {self.REVISION_LOCKFILE.name} does not pin '{self.DATASET_PATH}'"
            raise ConfigError(message, where=self.NAME, hint="add it, or set REVISION_LOCKFILE = None")
        return str(pinned[self.DATASET_PATH])

    # Rows.

    def _load_hf_dataset(self, **kwargs: Any) -> Any:
        """A dataset as `datasets.load_dataset` returns it, from the mirror, local files or the hub."""
        import datasets

        options = dict(kwargs)
        path = options.pop("path", self.DATASET_PATH)
        name, split = options.pop("name", None), options.pop("split", None)
        ignored = ("cache_dir", "download_config", "revision", "trust_remote_code")
        arguments = {key: value for key, value in options.items() if key not in ignored}
        if self.hf_revision is not None:
            arguments["revision"] = self.hf_revision
        config = TaskConfig.from_dict(
            {"task": self.NAME, "dataset_path": path, "dataset_name": name, "dataset_kwargs": arguments},
            source=self._source(),
        )
        loaded = load_dataset(config, self._mirror)
        if split is not None:
            return datasets.Dataset.from_list(list(loaded[str(split)]))
        return datasets.DatasetDict({key: datasets.Dataset.from_list(list(loaded[key])) for key in loaded})

    def _shuffle_splits(self, hf_dataset: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
        """The rows by split, those of SAMPLE_SPLIT in random order."""
        rows = {
            split: list(data) for split, data in hf_dataset.items() if split in (self.SAMPLE_SPLIT, self.FEWSHOT_SPLIT)
        }
        if self.SAMPLE_SPLIT in rows:
            self._generator().shuffle(rows[self.SAMPLE_SPLIT])
        return rows

    def _load_dataset(self, subject: Any) -> None:
        """Load the rows of a subject and set `dataset`."""
        name = None if subject == NO_SUBJECT else subject
        self.dataset = self._shuffle_splits(self._load_hf_dataset(path=self.DATASET_PATH, name=name))

    # Samples.

    def iterate_samples(self, num_samples: int | None = None) -> Iterator[Sample]:
        """All samples of all subjects, or the first `num_samples` of each, in eval-framework's order."""
        for subject in self.SUBJECTS:
            self._load_dataset(subject)
            yield from islice(self._samples_of(subject), num_samples)

    def _samples_of(self, subject: Any) -> Iterator[Sample]:
        number = 0
        for item in self.dataset[self.SAMPLE_SPLIT]:
            item["subject"] = subject
            samples = self._create_samples(item, number, str(subject))
            number += len(samples)
            yield from samples

    def _create_samples(self, item: dict[str, Any], index: int, subject: str) -> list[Sample]:
        """The samples of a row; by default one."""
        return [
            Sample(
                id=index,
                subject=str(subject),
                messages=self._get_messages(item),
                ground_truth=self._get_ground_truth(item),
                possible_completions=self._get_possible_completions(item),
                context=self._get_context(item),
            )
        ]

    def _get_messages(self, item: dict[str, Any]) -> list[Message]:
        """The messages of a prompt: system text, few-shot examples, question, and the cue as an assistant message."""
        messages = self._get_example_messages(item)
        messages += self._get_instruction_messages(item)
        if cue := self._get_cue_text(item):
            messages.append(Message(role=Role.ASSISTANT, content=cue))
        if opening := self._get_initial_prompt_text(item):
            messages[0] = messages[0].model_copy(update={"content": f"{opening}\n\n{messages[0].content}"})
        if system := self._get_system_prompt_text(item):
            messages.insert(0, Message(role=Role.SYSTEM, content=system))
        return messages

    def _get_example_messages(self, item: dict[str, Any]) -> list[Message]:
        """The messages of the few-shot examples, a question and an answer for each."""
        messages = []
        for example in self._sample_fewshot_examples(item) if self.num_fewshot else []:
            example = {**example, "subject": item["subject"]}
            messages += self._get_instruction_messages(example)
            messages.append(Message(role=Role.ASSISTANT, content=self._get_fewshot_target_text(example)))
        return messages

    def _get_instruction_messages(self, item: dict[str, Any]) -> list[Message]:
        return [Message(role=Role.USER, content=self._get_instruction_text(item))]

    def _sample_fewshot_examples(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        """The rows of the few-shot examples; a row is never its own example."""
        if self._draw is not None:
            return self._draw(item)
        number = self.num_fewshot or 0
        rows = list(self.dataset[str(self.FEWSHOT_SPLIT)])
        if self.FEWSHOT_SPLIT != self.SAMPLE_SPLIT:
            return self._generator().sample(rows, number)
        drawn = self._generator().sample(rows, number + 1)
        return [row for row in drawn if row != item][:number]

    def _get_context(self, item: dict[str, Any]) -> BaseMetricContext | list[BaseMetricContext] | None:
        """What metrics get beside the ground truth."""
        return None

    def post_process_generated_completion(self, completion_text: str, sample: Sample | None = None) -> str:
        """The part of a completion that is scored; by default all of it."""
        return completion_text

    @property
    def _own_hooks(self) -> frozenset[str]:
        """The hooks that the class defines or overrides."""
        return frozenset(overridden_methods(type(self), SampleHooks, (*DATA, *STYLED, *LOADING, *REFUSED)))

    def _generator(self) -> random.Random:
        if self.rnd is None:
            self.rnd = random.Random(RANDOM_SEED)
        return self.rnd
