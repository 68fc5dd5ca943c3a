"""SampleHooks: the hooks of a Python task that load its rows and create its samples."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from multiform.calls import overridden_methods
from multiform.compat.eval_framework.styler_hooks import DATA, LOADING, NO_SUBJECT, REFUSED, STYLED, StylerHooks
from multiform.errors import ConfigError, DataError, UsageError, nearest
from multiform.formats import ResponseType
from multiform.tasks import TaskConfig
from multiform.tasks.datasets.documents import load_dataset

if TYPE_CHECKING:
    from multiform.formats.dialects.samples import BaseMetricContext, Message, Sample

logger = logging.getLogger("multiform")

#: The default seed of a task's random generator.
RANDOM_SEED = 42


class SampleHooks(StylerHooks):
    """Loads rows and creates one or more samples from each; a class may override every method.

    `dataset` has the rows by split, and `rnd` is the random generator of the hooks. A run sets both: rows are in the
    order of the dataset, and the generator of each row depends only on the seed and the index of the row.
    """

    dataset: Mapping[str, Sequence[dict[str, Any]]]

    def __init__(self, num_fewshot: int | None = None) -> None:
        self.num_fewshot = num_fewshot
        self.user_prompt_suffix: str | None = None
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
        user_prompt_suffix: str | None = None,
        seed: int | None = RANDOM_SEED,
    ) -> Self:
        """The task with other settings: few-shot examples, subjects, dataset revision, suffix of the prompt, seed."""
        task = cls(num_fewshot=num_fewshot)
        if user_prompt_suffix is not None and task.get_response_type() is not ResponseType.COMPLETION:
            message = "user_prompt_suffix is for tasks in which the model generates"
            raise SuffixError(message, where=cls.NAME, hint="leave it out")
        task.user_prompt_suffix = user_prompt_suffix
        task.rnd = random.Random(seed)
        task.hf_revision = task._apply_hf_revision(custom_hf_revision)
        subjects = task._filter_task_subjects(custom_subjects)
        if subjects:
            task.SUBJECTS = subjects
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

    def _filter_task_subjects(self, custom_subjects: list[str] | None) -> list[Any] | None:
        """The selected subjects; ``de,*`` selects all subjects that are tuples beginning with ``de``."""
        if not custom_subjects:
            return None
        chosen: list[Any] = []
        for pattern in custom_subjects:
            matches = [subject for subject in self.SUBJECTS if _names(pattern, subject)]
            if not matches:
                hint = nearest(
                    pattern, [_subject_name(subject) for subject in self.SUBJECTS], listed="its subjects are"
                )
                raise SubjectError(f"no subject '{pattern}'", where=self.NAME, hint=hint)
            chosen += [subject for subject in matches if subject not in chosen]
        return [subject for subject in self.SUBJECTS if subject in chosen]

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
        rows = {split: list(data) for split, data in hf_dataset.items() if split in self._splits()}
        if self.SAMPLE_SPLIT in rows:
            self._generator().shuffle(rows[self.SAMPLE_SPLIT])
        return rows

    def _load_dataset(self, subject: Any) -> None:
        """Load the rows of a subject and set `dataset`."""
        name = None if subject == NO_SUBJECT else subject
        self.dataset = self._shuffle_splits(self._load_hf_dataset(path=self.DATASET_PATH, name=name))

    def _splits(self) -> tuple[str | None, str | None]:
        return self.SAMPLE_SPLIT, self.FEWSHOT_SPLIT

    # Samples.

    def iterate_samples(self, num_samples: int | None = None) -> Iterator[Sample]:
        """All samples of all subjects, or the first `num_samples` of each, in eval-framework's order."""
        for subject in self.SUBJECTS:
            self._load_dataset(subject)
            number = 0
            for item in self.dataset[self.SAMPLE_SPLIT]:
                if num_samples is not None and number >= num_samples:
                    break
                item["subject"] = subject
                for sample in self._create_samples(item, number, str(subject)):
                    yield sample
                    number += 1
                    if number == num_samples:
                        break

    def _create_samples(self, item: dict[str, Any], index: int, subject: str) -> list[Sample]:
        """The samples of a row; by default one."""
        from multiform.formats.dialects.samples import Sample

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
        from multiform.formats.dialects.samples import Message, Role

        messages = self._get_example_messages(item)
        messages += self._apply_user_prompt_suffix(self._get_instruction_messages(item))
        if cue := self._get_cue_text(item):
            messages.append(Message(role=Role.ASSISTANT, content=cue))
        if opening := self._get_initial_prompt_text(item):
            messages[0] = messages[0].model_copy(update={"content": f"{opening}\n\n{messages[0].content}"})
        if system := self._get_system_prompt_text(item):
            messages.insert(0, Message(role=Role.SYSTEM, content=system))
        return messages

    def _get_example_messages(self, item: dict[str, Any]) -> list[Message]:
        """The messages of the few-shot examples, a question and an answer for each."""
        from multiform.formats.dialects.samples import Message, Role

        messages = []
        for example in self._sample_fewshot_examples(item) if self.num_fewshot else []:
            example = {**example, "subject": item["subject"]}
            messages += self._get_instruction_messages(example)
            messages.append(Message(role=Role.ASSISTANT, content=self._get_fewshot_target_text(example)))
        return messages

    def _get_instruction_messages(self, item: dict[str, Any]) -> list[Message]:
        from multiform.formats.dialects.samples import Message, Role

        return [Message(role=Role.USER, content=self._get_instruction_text(item))]

    def _apply_user_prompt_suffix(self, instruction_messages: list[Message]) -> list[Message]:
        """The messages with `user_prompt_suffix` added to the last one of the user."""
        from multiform.formats.dialects.samples import Role

        if self.user_prompt_suffix is None:
            return instruction_messages
        last = max((i for i, m in enumerate(instruction_messages) if m.role is Role.USER), default=None)
        if last is None:
            raise SuffixError("no message of the user to put user_prompt_suffix after", where=self.NAME)
        messages = list(instruction_messages)
        content = f"{messages[last].content}{self.user_prompt_suffix}"
        messages[last] = messages[last].model_copy(update={"content": content})
        return messages

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

    def generate_completions(self, *args: Any, **kwargs: Any) -> Any:
        """Not supported: a run sends the requests to the model."""
        raise UsageError("generate_completions is not part of Multiform", where=self.NAME, hint="call evaluate()")

    def display_name(self) -> str:
        return self.NAME

    @property
    def _own_hooks(self) -> frozenset[str]:
        """The hooks that the class defines or overrides."""
        return frozenset(overridden_methods(type(self), SampleHooks, (*DATA, *STYLED, *LOADING, *REFUSED)))

    def _generator(self) -> random.Random:
        if self.rnd is None:
            self.rnd = random.Random(RANDOM_SEED)
        return self.rnd


class SubjectError(DataError, AssertionError):
    """A task has no such subject."""


class SuffixError(UsageError, ValueError):
    """`user_prompt_suffix` cannot be applied to a task."""


def _names(pattern: str, subject: Any) -> bool:
    if not isinstance(subject, tuple):
        return pattern == subject or pattern == str(subject)
    parts = [part.strip() for part in pattern.split(",")]
    pairs = zip(parts, subject, strict=False)
    return len(parts) == len(subject) and all(part in ("*", str(value)) for part, value in pairs)


def _subject_name(subject: Any) -> str:
    return ",".join(map(str, subject)) if isinstance(subject, tuple) else str(subject)
