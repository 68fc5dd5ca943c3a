"""Recognise the format or protocol of a finished prompt, or the nearest one and what it does otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from multiform.errors import MultiformError
from multiform.formats import formats
from multiform.formats.select import format_table, is_prompt
from multiform.forms.task import Task
from multiform.tasks import TaskConfig, TaskManager

#: Characters of private use stand for the values of a document: they pass through every template unchanged.
_VALUE = re.compile("[\ue000-\ue0ff]+")
_QUESTION = "\ue000"
_NUMBERS_OF_CHOICES = (4, 2, 3, 5, 10)
#: Two lines that look like labelled choices: what has them in its question is another layout.
_CHOICES = re.compile(r"(?m)(?:^\s*[\[(]?(?:[A-Ja-j]|\d|[ivx]{1,4})[\])}.:] .*\n?){2}")


@dataclass(frozen=True, slots=True)
class Layout:
    """The texts that a form writes around the values of a document."""

    #: ``olmes-mc``, ``lm-eval``, ``mcqa``; and the task that it was rendered for, if it is not for all.
    label: str
    task: str | None
    question: str
    description: str = ""
    #: The targets of the few-shot examples that are given.
    shots: tuple[str, ...] = ()

    @property
    def pieces(self) -> list[str]:
        """The texts around the values, in order."""
        return [piece for piece in _VALUE.split(self.question) if piece.strip()]

    def score(self, text: str) -> int | None:
        """How many characters of the prompt the layout explains; None if it does not fit."""
        inner = "(.+?)".join(map(re.escape, _VALUE.split(self.question)))
        found = re.search(rf"(?s)(?:\A|\n){inner}\s*\Z", text)
        for start in re.finditer(r"(?:\A|\n)", text):  # the last question, not all from the first example on
            later = re.compile(rf"(?s){inner}\s*\Z").match(text, start.end())
            found = later or found
        if found is None or any(_CHOICES.search(f"{value}\n") for value in found.groups()):
            return None
        score = sum(map(len, self.pieces))
        described = self.description.strip()
        if described:
            pattern = "(.+?)".join(map(re.escape, _VALUE.split(described)))
            score += len(described) if re.match(pattern, text) else -len(described)
        given = sum(len(shot) for shot in self.shots if shot in text)
        return score + given if given or not self.shots else score - 1


@dataclass(frozen=True, slots=True)
class Recognition:
    """The forms whose layout a prompt has; or the nearest one, and its texts that the prompt lacks."""

    fits: tuple[Layout, ...]
    nearest: Layout | None = None
    missing: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """The formats and protocols, each once."""
        return list(dict.fromkeys(layout.label for layout in self.fits))

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        nearest = None if self.nearest is None else _name(self.nearest)
        return {"fits": list(map(_name, self.fits)), "nearest": nearest, "missing": list(self.missing)}


def _name(layout: Layout) -> str:
    return layout.label if layout.task is None else f"{layout.task}@{layout.label}"


def recognise(text: str, layouts: list[Layout]) -> Recognition:
    """The layouts that explain most of a prompt; without any, the one with the most of its texts in the prompt."""
    scores = {layout: score for layout in layouts if (score := layout.score(text)) is not None}
    if scores:
        best = max(scores.values())
        return Recognition(tuple(layout for layout, score in scores.items() if score == best))

    def explained_characters(layout: Layout) -> int:
        """The characters that the prompt has of the layout, less those that it lacks."""
        return sum(len(piece) if piece in text else -len(piece) for piece in layout.pieces)

    nearest = max(layouts, key=explained_characters, default=None)
    if nearest is None or explained_characters(nearest) <= 0:
        return Recognition(())
    return Recognition((), nearest, tuple(piece for piece in nearest.pieces if piece not in text))


def known_layouts(manager: TaskManager) -> list[Layout]:
    """The layouts of all formats, and of every protocol with the `lm-eval` forms of the same tasks."""
    layouts = [layout for name in formats for layout in _layouts(_example(name), name, None)]
    names = dict.fromkeys(task for protocol in manager.protocols.values() for task in protocol.tasks)
    for task in names:
        if task not in manager.index.entries:  # of a protocol for tasks that are elsewhere
            continue
        own = [label for label, entry in _own_forms(manager, task).items() if is_prompt(entry)]
        labels = [label for protocol in manager.protocols.values() for label in protocol.labels([task])]
        for label in [*own, *labels]:
            config = manager.load(f"{task}@{label}")[0]
            layouts += _layouts(config, label, task)
    return list(dict.fromkeys(layouts))


def _own_forms(manager: TaskManager, task: str) -> dict[str, Any]:
    return format_table(manager.load(task)[0].stated.get("formats"))


def _example(name: str) -> TaskConfig:
    return TaskConfig(
        task="example", doc_to_text="question", doc_to_choice="choices", doc_to_target="answer", formats=name
    )


def _layouts(config: TaskConfig, label: str, task: str | None) -> Iterator[Layout]:
    """The layouts of a form with several numbers of choices."""
    subject = str(config.dataset_name or "").replace("_", " ")
    described = str(config.description)
    if subject and subject in described:
        described = described.replace(subject, "\ue0ff")
    bare = config.replace(description="", num_fewshot=0, custom_dataset=_no_documents)
    form = Task.from_config(bare).form
    samples = form.fewshot.samples if isinstance(form.fewshot.samples, list) else []
    shots = tuple(str(shot.get("target", shot.get("solution", ""))) for shot in samples)
    for number in _NUMBERS_OF_CHOICES:
        for row in _rows(number):
            try:
                request = form.sample(0, row).instances[0].request
            except (MultiformError, LookupError, TypeError, ValueError):
                continue  # the columns are those of another dataset
            question = str(getattr(request, "context", ""))
            if _VALUE.search(question) and _VALUE.sub("", question).strip():
                yield Layout(label, task, question, described, shots)
                break


def _no_documents(**_: Any) -> dict[str, list[dict[str, Any]]]:
    """The dataset in the place of the task's own, which is not needed to render a made-up document."""
    return {split: next(([row] for row in _rows(4)), []) for split in ("train", "validation", "test", "dev")}


def _rows(number: int) -> Iterator[dict[str, Any]]:
    """Documents whose values are characters of private use, with the columns of many datasets."""
    choices = [chr(0xE010 + index) for index in range(number)]
    labels = list("ABCDEFGHIJ"[:number])
    common = {
        **dict.fromkeys(("question", "Question", "question_stem", "problem", "goal", "context"), _QUESTION),
        **dict.fromkeys(("passage", "activity_label", "ctx_a", "ctx_b", "cot_content"), "\ue001"),
        **dict(zip(("sol1", "sol2"), choices, strict=False)),
        **dict(zip(("option1", "option2"), choices, strict=False)),
        **dict(zip(("answerA", "answerB", "answerC"), choices, strict=False)),
        **dict(zip(("correct", "wrong1", "wrong2", "wrong3"), choices, strict=False)),
        "endings": choices,
        "solution": "$\\boxed{1}$",
        "options": choices,
        "sentence": f"{_QUESTION}_\ue001",
        "answerKey": "A",
        "target": "1",
        "answer_index": 0,
        "category": "",
        "subject": "",
        "Explanation": "",
        "source_id": "",
        "ind": 0,
        "idx": 0,
    }
    for shown in ({"text": choices, "label": labels}, choices):
        for answer, label in ((0, 0), ("A", "1"), ("1", "1"), ("#### 1", 1)):
            yield {**common, "choices": shown, "answer": answer, "label": label}
