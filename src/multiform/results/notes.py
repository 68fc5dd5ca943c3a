"""Notes below a table: completions without an extracted answer, and task settings that formats override."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from multiform.results.extraction import Extraction, extraction_of, pooled_extraction
from multiform.results.results import FormResult, Results


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedForms:
    """The forms that a note is about: a single one, or those of a group under one format."""

    name: str
    forms: Sequence[FormResult]
    #: Whether the group weighs its tasks by their numbers of documents.
    weight_by_size: bool = True


def noted_forms(results: Results) -> list[NotedForms]:
    """The outermost groups with their forms, then the forms that are in none."""
    by_name = {form.name: form for form in results.forms}
    noted = []
    for group in results.groups:
        forms = [by_name.pop(name) for name in group.forms if name in by_name]
        if forms:
            noted.append(NotedForms(name=group.name, forms=forms, weight_by_size=group.weight_by_size))
    return [*noted, *(NotedForms(name=form.form, forms=[form]) for form in by_name.values())]


def extractions(results: Results) -> Iterator[tuple[str, Extraction]]:
    """The extraction shares of each group and form, with its name."""
    for entry in noted_forms(results):
        read = [extraction for form in entry.forms if (extraction := extraction_of(form)) is not None]
        if read:
            yield entry.name, pooled_extraction(read, weight_by_size=entry.weight_by_size)


def form_notes(results: Results) -> Iterator[str]:
    """Notes on completions without an extracted answer, and on task settings that formats override."""
    for name, extraction in extractions(results):
        if extraction.missing.value or extraction.lenient.value > extraction.right.value:
            yield f"{name}: {extraction}"
    names: dict[str, list[str]] = {}
    for entry in noted_forms(results):
        overridden = ", ".join(_overridden(entry.forms))
        if overridden:
            names.setdefault(overridden, []).append(entry.name)
    for overridden, listed in names.items():
        yield f"{_and_more(listed)}: the format overrides {overridden}"


def _overridden(forms: Sequence[FormResult]) -> Iterator[str]:
    """The settings that are overridden, each once; one that forms have different values of with an example."""
    by_kind: dict[str, list[str]] = {}
    for form in forms:
        for setting in form.overridden:
            by_kind.setdefault(setting.partition(" ")[0], []).append(setting)
    for kind, settings in by_kind.items():
        distinct = dict.fromkeys(settings)
        scope = "" if len(settings) >= len(forms) else f" of {len(settings)} tasks"
        if len(distinct) == 1 or len(forms) == 1:
            yield ", ".join(distinct) + scope
        else:
            yield f"{kind}{scope} (such as {settings[0].partition(' ')[2]})"


def _and_more(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
