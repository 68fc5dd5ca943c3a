"""Recognise the format or protocol of a finished prompt, or the nearest one and what it does otherwise.

Prompts may come from a logged samples file, such as a model card has: of lm-eval, OLMES, HELM, lighteval or Meta.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from multiform.errors import MultiformError, UsageError
from multiform.formats.base import formats
from multiform.formats.select import format_table, is_prompt
from multiform.forms.form import Form
from multiform.forms.task import Task
from multiform.tasks.config import TaskConfig
from multiform.tasks.manager import TaskManager

#: Characters of private use stand for the values of a document: they pass through every template unchanged.
_VALUE = re.compile("[\ue000-\ue0ff]+")
_QUESTION = "\ue000"
_NUMBERS_OF_CHOICES = (4, 2, 3, 5, 10)
#: Two lines that look like labelled choices: what has them in its question is another layout.
_CHOICES = re.compile(r"(?m)(?:^\s*[\[(]?(?:[A-Ja-j]|\d|[ivx]{1,4})[\])}.:] .*\n?){2}")

#: How many documents are read: a prompt with many examples may fit several formats, which others tell apart.
_MOST_PROMPTS = 20
#: Where the records of samples have the prompt: keys and indexes from the record on.
_PROMPT_PLACES: tuple[tuple[str | int, ...], ...] = (
    ("arguments", "gen_args_0", "arg_0"),  # lm-eval
    ("arguments", 0, 0),  # lm-eval up to 0.4.2
    ("arguments", 0, "arg_0"),
    ("request", "context"),  # OLMES
    ("request", "prompt"),  # HELM
    ("input_final_prompts", 0),  # Meta
    ("full_prompt",),  # lighteval
    ("doc", "query"),
    ("prompt",),
    ("input",),
)


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
    def name(self) -> str:
        """The label, after the task that it was rendered for; the same for every number of choices."""
        return self.label if self.task is None else f"{self.task}@{self.label}"

    @property
    def pieces(self) -> list[str]:
        """The texts around the values, in order."""
        return [piece for piece in _VALUE.split(self.question) if piece.strip()]

    def score(self, text: str) -> int | None:
        """How many characters of the prompt the layout explains; None if it does not fit."""
        inner = re.compile(rf"(?s){'(.+?)'.join(map(re.escape, _VALUE.split(self.question)))}\s*\Z")
        lines = [start.end() for start in re.finditer(r"\A|\n", text)]
        # The last question, not all from the first example on.
        found = next(filter(None, (inner.match(text, line) for line in reversed(lines))), None)
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
    #: How many of the prompts they fit.
    number: int = 1

    @property
    def labels(self) -> list[str]:
        """The formats and protocols, each once."""
        return list(dict.fromkeys(layout.label for layout in self.fits))

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        nearest = None if self.nearest is None else self.nearest.name
        return {"fits": [layout.name for layout in self.fits], "nearest": nearest, "missing": list(self.missing)}


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


def recognise_all(texts: Sequence[str], layouts: list[Layout]) -> Recognition:
    """The layouts that fit the most prompts, all of which one form has made; without any, those of the first prompt."""
    results = [recognise(text, layouts) for text in texts]
    counts = Counter(name for result in results for name in {layout.name: None for layout in result.fits})
    if not counts:
        return results[0]
    most = max(counts.values())
    by_name = {layout.name: layout for result in reversed(results) for layout in reversed(result.fits)}
    return Recognition(tuple(by_name[name] for name, count in counts.items() if count == most), number=most)


def known_layouts(manager: TaskManager) -> list[Layout]:
    """The layouts of all formats, and of every protocol with the `lm-eval` forms of the same tasks."""
    names = [name for name in formats if not getattr(formats.get(name), "is_control", False)]
    example = {"task": "example", "doc_to_text": "question", "doc_to_choice": "choices", "doc_to_target": "answer"}
    layouts: list[Layout] = []
    for name in names:
        layouts += _layouts(TaskConfig.from_dict({**example, "formats": name}), name, None)
    tasks = dict.fromkeys(task for protocol in manager.protocols.values() for task in protocol.tasks)
    for task in tasks:
        if task not in manager.index.entries:  # of a protocol for tasks that are elsewhere
            continue
        stated = format_table(manager.load(task)[0].stated.get("formats"))
        own = [label for label, entry in stated.items() if is_prompt(entry)]
        labels = [label for protocol in manager.protocols.values() for label in protocol.labels([task])]
        for label in [*own, *labels]:
            layouts += _layouts(manager.load(f"{task}@{label}")[0], label, task)
    return list(dict.fromkeys(layouts))


def _layouts(config: TaskConfig, label: str, task: str | None) -> Iterator[Layout]:
    """The layouts of a form with several numbers of choices."""
    subject, described = str(config.dataset_name or "").replace("_", " "), str(config.description)
    described = described.replace(subject, "\ue0ff") if subject else described
    forms = []
    for rows in _rows(_NUMBERS_OF_CHOICES[0]):
        # A dataset in the place of the task's own, which is not needed to render a made-up document.
        splits = dict.fromkeys(("train", "validation", "test", "dev"), rows[:1])
        bare = config.replace(description="", num_fewshot=0, custom_dataset=lambda splits=splits, **_: splits)
        forms.append(Task.from_config(bare).form)
    samples = forms[0].fewshot.samples
    listed = samples if isinstance(samples, list) else []
    shots = tuple(str(shot.get("target", shot.get("solution", ""))) for shot in listed)
    for number in _NUMBERS_OF_CHOICES:
        for form, rows in zip(forms, _rows(number), strict=True):
            question = next(filter(None, (_question(form, row) for row in rows)), None)
            if question is not None:
                yield Layout(label, task, question, described, shots)
                break


def _question(form: Form, row: dict[str, Any]) -> str | None:
    """The prompt of a made-up document; None where it has the columns of another dataset, or nothing but its values."""
    try:
        text = form.sample(0, row).prompt
    except (MultiformError, LookupError, TypeError, ValueError):
        return None
    return text if _VALUE.search(text) and _VALUE.sub("", text).strip() else None


def _rows(number: int) -> list[list[dict[str, Any]]]:
    """Documents whose values are characters of private use, with the columns of many datasets.

    There is a list for each kind of column that choices are in.
    """
    choices = [chr(0xE010 + index) for index in range(number)]
    labels = list("ABCDEFGHIJ"[:number])
    common = {
        **dict.fromkeys(("question", "Question", "question_stem", "problem", "goal", "context"), _QUESTION),
        **dict.fromkeys(("passage", "activity_label", "ctx_a", "ctx_b", "cot_content"), "\ue001"),
        **dict(zip(("sol1", "sol2"), choices, strict=False)),
        **dict(zip(("option1", "option2"), choices, strict=False)),
        **dict(zip(("answerA", "answerB", "answerC"), choices, strict=False)),
        **dict(zip(("correct", "wrong1", "wrong2", "wrong3"), choices, strict=False)),
        **dict.fromkeys(("endings", "options"), choices),
        **dict.fromkeys(("category", "subject", "Explanation", "source_id"), ""),
        **dict.fromkeys(("answer_index", "ind", "idx"), 0),
        "solution": "$\\boxed{1}$",
        "sentence": f"{_QUESTION}_\ue001",
        "answerKey": "A",
        "target": "1",
    }
    answers = ((0, 0), ("A", "1"), ("1", "1"), ("#### 1", 1))
    return [
        [{**common, "choices": shown, "answer": answer, "label": label} for answer, label in answers]
        for shown in ({"text": choices, "label": labels}, choices)
    ]


def read_prompts(path: Path) -> list[str]:
    """The prompt in a text file, or those of the first documents of a .jsonl or .json file.

    Messages are joined by empty lines.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"cannot be read: {getattr(error, 'strerror', None) or 'it is not text in UTF-8'}"
        raise UsageError(message, where=str(path), hint="give a text file, or - for stdin") from error
    if path.suffix not in (".jsonl", ".json"):
        return [text.rstrip("\n")]
    try:
        records = list(islice(_logged_records(text), _MOST_PROMPTS))
    except ValueError as error:
        hint = "paste one prompt into a .txt file"
        raise UsageError(f"not valid JSON: {error}", where=str(path), hint=hint) from error
    prompts = [prompt for record in records if (prompt := _logged_prompt(record)) is not None]
    if not prompts:
        places = ", ".join(".".join(map(str, place)) for place in _PROMPT_PLACES)
        hint = f"a record has the prompt under one of {places}; or paste one into a .txt file"
        raise UsageError("no prompt in its first records", where=str(path), hint=hint)
    return prompts


def _logged_records(text: str) -> Iterator[Any]:
    """The objects of a file: one in each line, a list of them, or those of HELM's `request_states`."""
    if not text.lstrip().startswith("[") and "\n{" in text.strip():
        yield from (json.loads(line) for line in text.splitlines() if line.strip())
        return
    content = json.loads(text)
    yield from content.get("request_states", [content]) if isinstance(content, dict) else content


def _logged_prompt(record: Any) -> str | None:
    for place in _PROMPT_PLACES:
        value = record
        for key in place:
            if isinstance(value, dict):
                value = value.get(key)
            else:
                value = value[key] if isinstance(value, list) and isinstance(key, int) and len(value) > key else None
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(isinstance(item, dict) and "content" in item for item in value):
            return "\n\n".join(str(item["content"]) for item in value)
    return None
