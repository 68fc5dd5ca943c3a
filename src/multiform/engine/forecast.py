"""The smallest difference between two forms that a run can detect, computed before it starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import comb
from typing import Any

from multiform.engine.pending import PendingSample
from multiform.errors import DataError, nearest
from multiform.scoring.metrics.base import RIGHT_OR_WRONG
from multiform.statistics.power import FLIP_RATE, Detectable, detectable_difference


def detectable_differences(pending: Sequence[PendingSample]) -> str | None:
    """The smallest difference between two forms that the run can detect; None where every task has one form.

    Where tasks have different numbers of documents, that of the smallest and of the largest task.
    """
    comparable: dict[str, dict[str, _Comparable]] = {}
    for entry in pending:
        metric = next(iter(entry.task.higher_is_better()), None)
        if metric in RIGHT_OR_WRONG:
            forms = comparable.setdefault(entry.task.config.base_name, {})
            forms.setdefault(entry.task.name, _Comparable(entry.task.config.output_type)).add(entry)
    multi_form = [list(forms.values()) for forms in comparable.values() if _pairs(list(forms.values()))]
    if not multi_form:
        return None
    detectable = sorted((_detectable(forms) for forms in multi_form), key=lambda each: each.n, reverse=True)
    best, worst = detectable[0], detectable[-1]
    differences = " to ".join(dict.fromkeys([_words(best), _words(worst)]))
    tasks = f" in {len(multi_form)} tasks" if len(multi_form) > 1 else ""
    flips = max(each.flip_rate for each in detectable)
    assumed = f"if they flip {FLIP_RATE:.0%} of the documents" + (
        "" if flips == FLIP_RATE else ", or as many as that needs"
    )
    return (
        f"smallest difference between two forms that the run can detect: {differences}{tasks}, "
        f"with {best.power:.0%} power {assumed}"
    )


def _words(detectable: Detectable) -> str:
    return f"{'none' if detectable.difference is None else f'{detectable.difference:.3f}'} (n={detectable.n})"


@dataclass(slots=True)
class _Comparable:
    """The documents of a form, as clusters; forms of one output type are compared with each other."""

    output_type: str
    clusters: set[Any] = field(default_factory=set)

    def add(self, entry: PendingSample) -> None:
        column, sample = entry.task.form.metadata.get("cluster"), entry.sample
        self.clusters.add(sample.doc_id if column is None else str(sample.doc.get(column)))


def _pairs(forms: Sequence[_Comparable]) -> int:
    """How many pairs of forms are compared."""
    return sum(comb(number, 2) for number in Counter(form.output_type for form in forms).values())


def _detectable(forms: Sequence[_Comparable]) -> Detectable:
    return detectable_difference(min(len(form.clusters) for form in forms), comparisons=_pairs(forms))


def check_clusters(pending: Sequence[PendingSample]) -> None:
    """Refuse a column of clusters that documents do not have."""
    for entry in pending:
        column, doc = entry.task.form.metadata.get("cluster"), entry.sample.doc
        if column is not None and column not in doc:
            place = entry.task.config.where("metadata", "cluster") or entry.task.name
            raise DataError(
                f"doc {entry.sample.doc_id} has no column '{column}'",
                where=place,
                hint=nearest(str(column), doc, listed="columns"),
            )
