"""The scorer `instructions`: checks the rules that a document names, such as "use no commas".

The 25 rules of IFEval are in `rules`, the 58 of IFBench in `ifbench_rules`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from multiform.errors import ConfigError, DataError, MultiformError, shorten
from multiform.fields import Doc, Field, FieldSpec
from multiform.scoring.metrics import register_metric
from multiform.scoring.outcome import Outcome
from multiform.scoring.scorers import ifbench_rules as ifbench_rules  # registers them
from multiform.scoring.scorers.base import Scorer, as_completion, register_scorer
from multiform.scoring.scorers.rules import follows

_METRICS = {
    "prompt_level_strict_acc": "mean",
    "inst_level_strict_acc": "ratio",
    "prompt_level_loose_acc": "mean",
    "inst_level_loose_acc": "ratio",
}


def _not_computed(outcome: Outcome) -> float:
    """The share of prompts, or of instructions, that are followed; computed by the scorer `instructions`."""
    raise ConfigError("the metric comes from rules", hint="write scorer: instructions")


for _name, _aggregation in _METRICS.items():
    register_metric(_name, output_type="generate_until", aggregation=_aggregation)(_not_computed)


@register_scorer("instructions")
@dataclass(kw_only=True, eq=False)
class Instructions(Scorer):
    """Whether a completion follows the rules of its document.

    `rules` is the field with the names of the rules, `arguments` that with a mapping of arguments for each, and
    `prompt` that with the prompt; the first two may be JSON text. Loose scores accept a response that follows
    a rule without its first or last line, or without asterisks.
    """

    default_metric_cfg: ClassVar[Sequence[str]] = (*_METRICS, "truncated")
    deferred: ClassVar[bool] = True

    rules: FieldSpec = "instruction_id_list"
    arguments: FieldSpec = "kwargs"
    prompt: FieldSpec = "prompt"

    def __post_init__(self) -> None:
        try:
            self._rules, self._arguments = Field.of(self.rules), Field.of(self.arguments)
            self._prompt = Field.of(self.prompt)
        except MultiformError as error:
            raise error.at("scorer.kwargs") from error

    @property
    def needs_references(self) -> bool:
        return any(metric.name not in (*_METRICS, "truncated") for metric in self.metrics)

    def score_instances(self, outcomes: Sequence[Sequence[Outcome]], docs: Sequence[Doc]) -> list[dict[str, Any]]:
        return [
            self.reduce([self._values(outcome, doc) for outcome in repeats])
            for repeats, doc in zip(outcomes, docs, strict=True)
        ]

    def _values(self, outcome: Outcome, doc: Doc) -> dict[str, Any]:
        completion = as_completion(outcome, "instructions")
        names, arguments = _parse(self._rules.value(doc)), _parse(self._arguments.value(doc))
        if not isinstance(names, list) or not isinstance(arguments, list) or len(names) != len(arguments):
            message = f"expected as many arguments as rules, got {shorten(names)} and {shorten(arguments)}"
            raise DataError(message, where="scorer.kwargs", hint="name the columns with rules: and arguments:")
        text, prompt = completion.primed + str(completion.prediction or ""), str(self._prompt.value(doc))
        texts = loose_texts(text)
        pairs = [(str(name), _parse(options)) for name, options in zip(names, arguments, strict=True)]
        strict = [follows(name, text, options, prompt) for name, options in pairs]
        loose = [any(follows(name, other, options, prompt) for other in texts) for name, options in pairs]
        values: dict[str, Any] = {
            "prompt_level_strict_acc": float(all(strict)),
            "inst_level_strict_acc": (sum(strict), len(strict)),
            "prompt_level_loose_acc": float(all(loose)),
            "inst_level_loose_acc": (sum(loose), len(loose)),
        }
        return {m.name: values[m.name] if m.name in values else m(outcome) for m in self.metrics}


def loose_texts(text: str) -> list[str]:
    """The response, also without its first line, its last line and both, each with and without asterisks.

    >>> loose_texts("Sure!\\n*Yes*")
    ['Sure!\\n*Yes*', 'Sure!\\nYes', '*Yes*', 'Yes', 'Sure!', 'Sure!', '', '']
    """
    lines = text.split("\n")
    parts = [text, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return [version for part in parts for version in (part, part.replace("*", ""))]


def _parse(value: Any) -> Any:
    """The list or mapping that a JSON text holds; other values as they are."""
    if not isinstance(value, str):
        return dict(value) if isinstance(value, Mapping) else value
    try:
        return json.loads(value)
    except ValueError as error:
        message = f"expected JSON, got {shorten(value)}: {error}"
        raise DataError(message, where="scorer.kwargs", hint="check the columns of rules and arguments") from error
