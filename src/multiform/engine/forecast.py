"""The smallest difference between two forms that a run can detect, computed before it starts."""

from __future__ import annotations

from collections.abc import Sequence

from multiform.engine.pending import PendingSample
from multiform.errors import DataError, nearest
from multiform.statistics.power import FLIP_RATE, Detectable, detectable_difference


def detectable_differences(pending: Sequence[PendingSample]) -> str | None:
    """The smallest difference between two forms that the run can detect; None where every task has one form.

    Where tasks have different numbers of documents, that of the smallest and of the largest task.
    """
    documents: dict[str, dict[str, int]] = {}
    for entry in pending:
        forms = documents.setdefault(entry.task.config.base_name, {})
        forms[entry.task.name] = forms.get(entry.task.name, 0) + 1
    multi_form = [forms for forms in documents.values() if len(forms) > 1]
    if not multi_form:
        return None
    detectable = sorted((_detectable(forms) for forms in multi_form), key=lambda each: each.n, reverse=True)
    best, worst = detectable[0], detectable[-1]
    differences = " to ".join(dict.fromkeys([_words(best), _words(worst)]))
    tasks = f" in {len(multi_form)} tasks" if len(multi_form) > 1 else ""
    return (
        f"smallest difference between two forms that the run can detect: {differences}{tasks}, "
        f"with {best.power:.0%} power if they flip {FLIP_RATE:.0%} of the documents"
    )


def _words(detectable: Detectable) -> str:
    return f"{'none' if detectable.difference is None else f'{detectable.difference:.3f}'} (n={detectable.n})"


def _detectable(forms: dict[str, int]) -> Detectable:
    return detectable_difference(min(forms.values()), comparisons=len(forms) * (len(forms) - 1) // 2)


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
