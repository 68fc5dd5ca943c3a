"""The scorer `instructions`: checks the rules that a document names, such as "use no commas".

The 25 rules of IFEval are in `rules`, the 58 of IFBench in `ifbench_rules`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from multiform.errors import DataError, shorten
from multiform.fields import Doc, FieldSpec
from multiform.scoring.scorers import ifbench_rules as ifbench_rules  # registers them
from multiform.scoring.scorers.base import DocumentScorer, register_own_metric, register_scorer
from multiform.scoring.scorers.rules import follows

_METRICS = {
    "prompt_level_strict_acc": ("mean", "The share of prompts whose instructions are all followed, strictly"),
    "inst_level_strict_acc": ("ratio", "The share of instructions that are followed, strictly"),
    "prompt_level_loose_acc": ("mean", "The share of prompts whose instructions are all followed, loosely"),
    "inst_level_loose_acc": ("ratio", "The share of instructions that are followed, loosely"),
}
for _name, (_aggregation, _about) in _METRICS.items():
    _text = f"{_about}; computed by the scorer `instructions`."
    register_own_metric(_name, _text, hint="write scorer: instructions", aggregation=_aggregation)


@register_scorer("instructions")
@dataclass(kw_only=True, eq=False)
class Instructions(DocumentScorer):
    """Whether a completion follows the rules of its document.

    `rules` is the field with the names of the rules, `arguments` that with a mapping of arguments for each, and
    `prompt` that with the prompt; the first two may be JSON text. Loose scores accept a response that follows
    a rule without its first or last line, or without asterisks.
    """

    default_metric_cfg: ClassVar[Sequence[str]] = (*_METRICS, "truncated")
    own_metrics: ClassVar[Sequence[str]] = (*_METRICS,)

    rules: FieldSpec = "instruction_id_list"
    arguments: FieldSpec = "kwargs"
    prompt: FieldSpec = "prompt"

    def __post_init__(self) -> None:
        self._fields = self.compile_fields("rules", "arguments", "prompt")

    def own_values(self, text: str, doc: Doc) -> Mapping[str, Any]:
        names, arguments = (_parse(self._fields[name].value(doc)) for name in ("rules", "arguments"))
        if not isinstance(names, list) or not isinstance(arguments, list) or len(names) != len(arguments):
            message = f"expected as many arguments as rules, got {shorten(names)} and {shorten(arguments)}"
            raise DataError(message, where="scorer.kwargs", hint="name the columns with rules: and arguments:")
        prompt, texts = str(self._fields["prompt"].value(doc)), loose_texts(text)
        pairs = [(str(name), _parse(options)) for name, options in zip(names, arguments, strict=True)]
        strict = [follows(name, text, options, prompt) for name, options in pairs]
        loose = [any(follows(name, other, options, prompt) for other in texts) for name, options in pairs]
        return {
            "prompt_level_strict_acc": float(all(strict)),
            "inst_level_strict_acc": (sum(strict), len(strict)),
            "prompt_level_loose_acc": float(all(loose)),
            "inst_level_loose_acc": (sum(loose), len(loose)),
        }


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
