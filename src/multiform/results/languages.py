"""The table of languages: the score of each language of a family of tasks, and the spread over them.

Where the rows of a family are translations of each other, languages are compared document by document. The metadata of
a task says how rows are matched: `parallel: [link, question_number]` names the columns that translations share, and
`parallel: row` says that they stand in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from multiform.formats.localization import language_names
from multiform.forms import ScoredSample
from multiform.results.values import FormResult, GroupResult, ResultsData
from multiform.statistics.estimates import Estimate
from multiform.terminal import align

if TYPE_CHECKING:
    from multiform.statistics.means import DocumentScores

#: The value of `parallel` for translations that stand in the same order.
ROW = "row"


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageSpread:
    """The scores of the languages of one family under one format, and how far they lie apart."""

    name: str
    metric: str
    #: The score of each language, the highest first; a language with several scripts has one for each.
    scores: Mapping[str, Estimate]
    higher_is_better: bool
    #: The highest minus the lowest score; its interval allows for picking them only where documents are paired.
    spread: Estimate
    #: How often the spread would be as large if all languages were equally easy; None without pairs.
    p: float | None
    #: The number of documents that all languages have; None where documents are not paired.
    paired: int | None
    #: Why they are not paired, or by what they are.
    how: str

    def to_dict(self) -> dict[str, Any]:
        """The spread as plain data."""
        return {
            "metric": self.metric,
            "scores": {language: score.numbers("n") for language, score in self.scores.items()},
            "spread": self.spread.numbers("n"),
            "p": self.p,
            "paired": self.paired,
            "how": self.how,
        }


def language_spreads(results: ResultsData) -> list[LanguageSpread]:
    """The spread over languages of every group whose tasks state different languages."""
    forms = {form.name: form for form in results.forms}
    spreads = [
        _spread_of_group(group, [forms[name] for name in group.forms if name in forms]) for group in results.groups
    ]
    return [spread for spread in spreads if spread is not None]


def _spread_of_group(group: GroupResult, forms: Sequence[FormResult]) -> LanguageSpread | None:
    forms = [form for form in forms if form.estimates and language_names(_metadata(form))]
    if len({language_names(_metadata(form))[0] for form in forms}) < 2:
        return None
    key = forms[0].primary
    forms = [form for form in forms if form.primary == key]
    names = _language_names(forms)
    estimates = {name: form.estimates[key] for name, form in zip(names, forms, strict=True)}
    scores = dict(sorted(estimates.items(), key=lambda item: -item[1].value))
    table, how = _paired_table(forms, key)
    if table is None:
        spread, p, paired = _unpaired_spread(list(scores.values())), None, None
    else:
        from multiform.statistics.differences import spread_of
        from multiform.statistics.means import form_means

        difference = spread_of(form_means(table))
        spread, p, paired = difference.spread, difference.p, len(table.values)
    return LanguageSpread(
        name=group.name,
        metric=forms[0].metric,
        scores=scores,
        higher_is_better=forms[0].higher,
        spread=spread,
        p=p,
        paired=paired,
        how=how,
    )


def _metadata(form: FormResult) -> Mapping[str, Any]:
    return form.config.get("metadata") or {}


def _language_names(forms: Sequence[FormResult]) -> list[str]:
    """The language of each form, or the name of its task where several forms share one."""
    languages = [language_names(_metadata(form))[0] for form in forms]
    return [
        language if languages.count(language) == 1 else form.task
        for language, form in zip(languages, forms, strict=True)
    ]


def _unpaired_spread(scores: Sequence[Estimate]) -> Estimate:
    """The highest minus the lowest score, as of independent documents.

    Its interval is made of those of the two scores (Newcombe's), which is right for rates of 0 and 1 as well.
    """
    first, last = scores[0], scores[-1]
    difference, n = first.value - last.value, min(first.n, last.n)
    if first.low is None or first.high is None or last.low is None or last.high is None:
        return Estimate(value=difference, n=n)
    below = math.hypot(first.value - first.low, last.high - last.value)
    above = math.hypot(first.high - first.value, last.value - last.low)
    return Estimate(value=difference, n=n, low=difference - below, high=difference + above)


def _paired_table(forms: Sequence[FormResult], key: str) -> tuple[DocumentScores | None, str]:
    """The scores of the documents that all languages have, a column each; and how they were matched, or why not."""
    from multiform.results.compare import ScoredForm, shared_documents, shared_scores

    stated = _metadata(forms[0]).get("parallel")
    if stated is None:
        return None, "the task does not say how rows are matched (metadata.parallel)"
    named = stated if isinstance(stated, str) else ", ".join(stated)
    columns = [ScoredForm.of(form, key, lambda sample: _row_key(sample, stated)) for form in forms]
    for form, column in zip(forms, columns, strict=True):
        if None in column.samples:
            return None, f"rows of {form.task} have no {named}"
        if len(column.samples) < form.n:
            return None, f"'{named}' does not tell the rows of {form.task} apart"
    if any(column.family is None for column in columns):
        return None, "the score is not a mean over documents"
    if len(shared_documents(columns)) < 2:
        return None, "fewer than two rows are in all languages"
    table = shared_scores(columns)
    if table is None:
        return None, f"all shared rows have one {forms[0].cluster}"
    return table, "by their order" if stated == ROW else f"by {named}"


def _row_key(sample: ScoredSample, stated: Any) -> Hashable:
    """What a row shares with its translations; None where a column is empty."""
    if stated == ROW:
        return sample.doc_id
    values = [sample.doc.get(column) for column in ([stated] if isinstance(stated, str) else stated)]
    return None if None in values else tuple(map(str, values))


def languages_text(results: ResultsData) -> str:
    """One table: a row for each language, a column for each family; empty where no group has several languages.

    The languages of the most families come first, and of these the one with the highest mean score.
    """
    spreads = language_spreads(results)
    if not spreads:
        return ""
    languages = dict.fromkeys(language for spread in spreads for language in spread.scores)

    def rank(language: str) -> tuple[int, float]:
        scores = [spread.scores[language].value for spread in spreads if language in spread.scores]
        return -len(scores), -sum(scores) / len(scores)

    rows = [["", *(spread.name for spread in spreads)], ["language", *(spread.metric for spread in spreads)]]
    rows += [
        [language, *(_score_text(spread.scores.get(language)) for spread in spreads)]
        for language in sorted(languages, key=rank)
    ]
    rows += [
        ["best − worst", *(f"{spread.spread.value:.4f}" for spread in spreads)],
        ["95 % interval", *(spread.spread.interval_text(4) for spread in spreads)],
        ["p", *("" if spread.p is None else f"{spread.p:.3f}" for spread in spreads)],
        ["rows", *("unpaired" if spread.paired is None else f"{spread.paired} paired" for spread in spreads)],
    ]
    unpaired = "unpaired, the interval does not allow for picking the two languages:"
    return "\n".join(
        [
            *align(rows),
            *(f"{s.name}: {unpaired if s.paired is None else 'rows are paired'} {s.how}" for s in spreads),
        ]
    )


def _score_text(score: Estimate | None) -> str:
    if score is None:
        return "–"
    error = "" if score.stderr is None else f" ± {score.stderr:.4f}"
    return f"{score.value:.4f}{error}  n={score.n}"
