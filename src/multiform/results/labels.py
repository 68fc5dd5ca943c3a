"""HumanLabels: what people say about the completions of some documents, to calibrate a judge by."""

from __future__ import annotations

import csv
import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from multiform.errors import DataError, UsageError, shorten
from multiform.forms import Form, ScoredSample
from multiform.requests import Completion
from multiform.scoring.scorers.ai_judge import AIJudge
from multiform.statistics.estimates import MIN_LABELS, PoweredMean, powered_mean

logger = logging.getLogger("multiform")

#: The key of labels among the values of a sample, and the metric of the calibrated score.
HUMAN, CALIBRATED = "human", "judge_calibrated"
_WHERE = "--judge_labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanLabel:
    """A person's label of the completion of one document; of one form, or of any form of the run.

    `completion` is the text that was labelled: where the model has written another one since, the label is not used.
    """

    doc_id: int
    label: Any
    form: str | None = None
    completion: str | None = None


@dataclass(frozen=True, slots=True)
class HumanLabels:
    """The labels of a file."""

    labels: Sequence[HumanLabel]

    @classmethod
    def read(cls, path: str | Path) -> HumanLabels:
        """Read a JSON Lines or CSV file with the columns `doc_id`, `label` and perhaps `form` and `completion`."""
        path = Path(path).expanduser()
        try:
            rows = list(_rows(path))
        except (OSError, ValueError, csv.Error) as error:
            hint = "give a .jsonl or .csv file with doc_id and label"
            raise UsageError(
                f"cannot read {path}: {getattr(error, 'strerror', None) or error}", where=_WHERE, hint=hint
            ) from error
        labels = [_label(row, f"{_WHERE}: {path}: row {number}") for number, row in enumerate(rows, start=1)]
        counts = Counter((label.doc_id, label.form) for label in labels)
        twice = next((doc_id for (doc_id, _), number in counts.items() if number > 1), None)
        if twice is not None:
            hint = "give one for each completion, e.g. what most people say"
            raise DataError(f"doc {twice} has two labels", where=f"{_WHERE}: {path}", hint=hint)
        return cls(labels)

    def attach(self, form: Form, samples: Sequence[ScoredSample]) -> list[ScoredSample]:
        """The samples with labels among their values, where a judge has scored them."""
        scorers = {scorer.name: scorer for scorer in form.scoring.scorers if isinstance(scorer, AIJudge)}
        fitting = [label for label in self.labels if label.form in (None, form.name, form.task_name)]
        # A label of this very form comes before one of the task, and that before one of any form.
        fitting.sort(key=lambda label: (label.form == form.name, label.form is not None))
        labels = {label.doc_id: label for label in fitting}
        if not scorers or not labels:
            return list(samples)
        if form.config.repeats > 1:
            message = f"a label is of one completion, and '{form.name}' has {form.config.repeats} of each document"
            raise UsageError(message, where=_WHERE, hint="calibrate the judge with repeats: 1")
        labelled, changed = [], 0
        for sample in samples:
            label, scorer = labels.get(sample.doc_id), scorers.get(sample.scorer)
            if label is None or scorer is None or sample.failure is not None:
                labelled.append(sample)
            elif label.completion is not None and label.completion.strip() != _completion(sample):
                changed += 1
                labelled.append(sample)
            else:
                labelled.append(replace(sample, values={**sample.values, HUMAN: _value(scorer, label)}))
        if changed:
            message = "%s: %d of %d labels are not used, as the model has written another completion since"
            logger.warning(message, form.name, changed, len(labels))
        return labelled


def calibration(samples: Sequence[ScoredSample], scorer: str, *, name: str, cluster: str | None) -> PoweredMean | None:
    """The score that people would give, from the labels of some samples; None where too few have one."""
    values = [sample.values for sample in samples if sample.scorer == scorer and "judge" in sample.values]
    labelled = [value for value in values if HUMAN in value]
    if not labelled:
        return None
    if cluster is not None or len(labelled) < MIN_LABELS:
        reason = f"documents are in clusters ({cluster})" if cluster is not None else f"{MIN_LABELS} labels are needed"
        logger.warning("%s: the judge is not calibrated by %d labels: %s", name, len(labelled), reason)
        return None
    return powered_mean(
        [value[HUMAN] for value in labelled],
        [value["judge"] for value in labelled],
        [value["judge"] for value in values if HUMAN not in value],
    )


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            yield from csv.DictReader(file)
        else:
            yield from (json.loads(line) for line in file if line.strip())


def _label(row: Any, where: str) -> HumanLabel:
    known = isinstance(row, Mapping) and row.get("label") not in (None, "")
    try:
        doc_id = int(row["doc_id"]) if known else -1
    except (KeyError, TypeError, ValueError):
        doc_id = -1
    if doc_id < 0:
        raise DataError(
            f"expected doc_id and label, got {shorten(row)}", where=where, hint='write {"doc_id": 3, "label": 1}'
        )
    texts = {key: str(row[key]) for key in ("form", "completion") if row.get(key) not in (None, "")}
    return HumanLabel(doc_id=doc_id, label=row["label"], **texts)


def _value(scorer: AIJudge, label: HumanLabel) -> float:
    value = scorer.read_label(label.label)
    if value is None:
        hint = "give a number on the judge's scale, or one of its words"
        raise DataError(f"doc {label.doc_id}: cannot read the label {shorten(label.label)}", where=_WHERE, hint=hint)
    return value


def _completion(sample: ScoredSample) -> str:
    """What the model said in the end: thoughts and earlier replies of a conversation come before it."""
    return next((output.text.strip() for output in reversed(sample.outputs) if isinstance(output, Completion)), "")
