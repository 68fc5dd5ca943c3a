"""What two forms do differently: their prompts byte by byte, and every setting that scores depend on."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from multiform.errors import shorten
from multiform.forms.form import Form
from multiform.forms.sample import Sample
from multiform.tasks.keys import plain

#: A run of letters or digits, of line breaks or of blanks, or any other character.
_PIECES = re.compile(r"\w+|\n+|[^\S\n]+|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Edit:
    """The bytes of a prompt from `start` on that another one has otherwise."""

    start: int
    removed: str
    added: str


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting that two forms have different values of."""

    what: str
    first: Any
    second: Any

    def sentence(self) -> str:
        """The difference in a sentence."""
        return f"{self.what}: {_short(self.first)} became {_short(self.second)}."


@dataclass(frozen=True, slots=True)
class FormDifference:
    """The difference of two forms on one document."""

    names: tuple[str, str]
    prompts: tuple[str, str]
    edits: tuple[Edit, ...]
    settings: tuple[SettingDifference, ...]

    def sentences(self) -> list[str]:
        """One sentence for each difference; edits that are the same are one."""
        counts = Counter((edit.removed, edit.added) for edit in self.edits)
        return [
            *(_edit_sentence(*edit, times) for edit, times in counts.items()),
            *(s.sentence() for s in self.settings),
        ]

    def to_dict(self) -> dict[str, Any]:
        """The difference as plain data."""
        return {
            "forms": list(self.names),
            "prompts": list(self.prompts),
            "edits": [{"start": edit.start, "removed": edit.removed, "added": edit.added} for edit in self.edits],
            "settings": [{"what": s.what, "first": plain(s.first), "second": plain(s.second)} for s in self.settings],
            "sentences": self.sentences(),
        }


def text_edits(first: str, second: str) -> list[Edit]:
    """The edits that turn one text into the other; offsets are those of the first in UTF-8.

    >>> text_edits("A. yes", " A. yes")
    [Edit(start=0, removed='', added=' ')]
    """
    pieces, others = _PIECES.findall(first), _PIECES.findall(second)
    offsets = [0]
    for piece in pieces:
        offsets.append(offsets[-1] + len(piece.encode("utf-8", "surrogatepass")))
    matcher = SequenceMatcher(None, pieces, others, autojunk=False)
    return [
        Edit(offsets[start], "".join(pieces[start:end]), "".join(others[other_start:other_end]))
        for tag, start, end, other_start, other_end in matcher.get_opcodes()
        if tag != "equal"
    ]


def compare_forms(first: Form, second: Form, doc_id: int = 0) -> FormDifference:
    """The difference of two forms on a document: of one task, that of the first; of two tasks, each its own."""
    doc = first.eval_docs[doc_id]
    other_doc = doc if first.task_name == second.task_name else second.eval_docs[doc_id]
    sample, other = first.sample(doc_id, doc), second.sample(doc_id, other_doc)
    texts = (_request_text(sample), _request_text(other))
    values, others = _settings(first, sample), _settings(second, other)
    differing = tuple(
        SettingDifference(what, values[what], others[what]) for what in values if values[what] != others[what]
    )
    return FormDifference((first.name, second.name), texts, tuple(text_edits(*texts)), differing)


def _request_text(sample: Sample) -> str:
    """The prompts of a document; of a task with several inputs, one after the other."""
    contexts = dict.fromkeys(str(getattr(instance.request, "context", "")) for instance in sample.instances)
    return "\n-----\n".join(contexts)


def _settings(form: Form, sample: Sample) -> dict[str, Any]:
    """Everything but the prompt that the scores of a form depend on, in the words of a reader."""
    config, shots = form.config, form.fewshot
    source = shots.split if shots.samples is None or shots.split is not None else "given examples"
    scorers = form.scoring.scorers
    return {
        "protocol": config.protocol,
        "dataset": [config.dataset_path, config.dataset_name],
        "split": config.test_split or config.validation_split,
        "subset": {"draw_docs": config.draw_docs, "drop_docs": config.drop_docs},
        "number of few-shot examples": form.num_fewshot,
        "few-shot examples": None if not form.num_fewshot else shots.fewshot_rows or shots.samples or source,
        "sampler": None if not form.num_fewshot or shots.fewshot_rows else shots.sampler,
        "what is scored": form.output_type,
        "continuations": [str(getattr(instance.request, "continuation", "")) for instance in sample.instances],
        "metric": [[metric.name, dict(metric.kwargs)] for scorer in scorers for metric in scorer.metrics],
        "extraction": [plain(config.filter_list), plain(config.scorer)],
        "generation": form.generation_kwargs if form.generates else None,
        "repeats": config.repeats,
    }


def _edit_sentence(removed: str, added: str, times: int) -> str:
    often = "" if times == 1 else f" ({times} times)"
    if not removed:
        return f"The prompt has {_short(added)} added{often}."
    if not added:
        return f"The prompt lacks {_short(removed)}{often}."
    return f"The prompt has {_short(added)} in place of {_short(removed)}{often}."


def _short(value: Any) -> str:
    return "none" if value is None else shorten(value, 90)
