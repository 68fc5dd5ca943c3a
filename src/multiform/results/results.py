"""Results: the scores of every form of a run, with all that is needed to reproduce them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from multiform.scoring.statistics import Estimate
from multiform.tasks import ScoredSample


@dataclass(frozen=True, slots=True, kw_only=True)
class FormResult:
    """The scores of one form."""

    form: str
    task: str
    alias: str
    #: Short hash of the resolved format, few-shot setting and overrides.
    identity: str
    version: Any
    #: As shown: a task's metadata may say otherwise than was asked for.
    num_fewshot: Any
    total_docs: int
    estimates: Mapping[str, Estimate]
    higher_is_better: Mapping[str, bool]
    #: The task's configuration with the exact templates of its prompts.
    config: Mapping[str, Any]
    #: Where the question, choices and answer were found, before any format.
    mapping: Mapping[str, Any]
    format: Mapping[str, Any] | None
    overridden: Sequence[str]
    samples: Sequence[ScoredSample] = field(repr=False)

    @property
    def name(self) -> str:
        """What results are keyed by: the form."""
        return self.form

    @property
    def n(self) -> int:
        return len({sample.doc_id for sample in self.samples})

    @property
    def primary(self) -> str:
        """The key of the form's first metric, the one that tables lead with."""
        return next(iter(self.estimates))

    def scores(self) -> dict[str, Any]:
        """The scores as lm-eval writes them."""
        return {"name": self.name, "alias": self.alias, "sample_len": self.n, **_scores(self.estimates)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """The scores of a group of forms."""

    name: str
    alias: str
    #: How deep the group is below the one that was asked for.
    depth: int
    #: Names of the tasks and groups in it.
    members: Sequence[str]
    version: Any
    num_fewshot: Any
    estimates: Mapping[str, Estimate]
    higher_is_better: Mapping[str, bool]
    n: int

    def scores(self) -> dict[str, Any]:
        """The scores as lm-eval writes them."""
        named = {"alias": self.alias, "name": self.name}
        if not self.estimates:
            return named
        counts = {key: estimate.n for key, estimate in self.estimates.items()}
        return {**named, "sample_len": self.n, **_scores(self.estimates), "sample_count": counts}


def _scores(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, estimate in estimates.items():
        metric, _, scorer = key.partition(",")
        values[key] = estimate.value
        values[f"{metric}_stderr,{scorer}"] = "N/A" if estimate.stderr is None else estimate.stderr
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Results(Mapping[str, dict[str, Any]]):
    """All forms and groups of a run; ``results["arc_easy@mcqa"]["acc,none"]`` is a score."""

    forms: Sequence[FormResult]
    #: What the run was asked to do: model, arguments, seeds and so on.
    run: Mapping[str, Any]
    #: When, where, and with what the run was done.
    provenance: Mapping[str, Any]
    groups: Sequence[GroupResult] = ()

    def __getitem__(self, name: str) -> dict[str, Any]:
        for form in self.forms:
            if form.name == name:
                return form.scores()
        for group in self.groups:
            if group.name == name:
                return group.scores()
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        yield from (group.name for group in self.groups)
        yield from (form.name for form in self.forms)

    def __len__(self) -> int:
        return len(self.forms) + len(self.groups)
