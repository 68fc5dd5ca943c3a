"""Verdicts: how judges are asked for a grade, and the grade in a response as a number from 0 to 1.

Rubrics are the prompts of judges whose task has none of its own, as Jinja templates. Their variables are `question`,
`prompt`, `prediction`, `reference`, `references`, `choices`, `doc` and `scale`; in a conversation `turn`, and
`conversation` with the messages before the reply; where two answers are compared, `first` and `second`, and `baseline`,
the answer that the prediction is compared with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multiform.errors import ConfigError, excerpt
from multiform.requests import Completion
from multiform.scoring.scorers.base import compile_pattern

#: Words with their values; of two answers, how much better the first one is, and how people say that of a completion.
_GRADES = {
    **dict.fromkeys(("correct", "right", "yes", "true", "pass"), 1.0),
    **dict.fromkeys(("incorrect", "wrong", "no", "false", "fail"), 0.0),
}
_PAIR_GRADES = {"a": 1.0, "b": 0.0, "tie": 0.5}
_PAIR_LABELS = {"win": 1.0, "tie": 0.5, "loss": 0.0}
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)(?:\s*/\s*(\d+(?:\.\d+)?))?")


@dataclass(frozen=True, slots=True)
class Scale:
    """The lowest and the highest score of a judge; 0 and 1 by default."""

    low: float = 0
    high: float = 1

    @classmethod
    def of(cls, spec: Any) -> Scale:
        """The scale of a number, which is the highest score, or of a pair of numbers.

        >>> Scale.of(10), Scale.of([1, 5]), Scale.of(None)
        (Scale(low=0, high=10), Scale(low=1, high=5), Scale(low=0, high=1))
        """
        if spec is None:
            return cls()
        ends = [0, spec] if not isinstance(spec, list | tuple) else spec
        numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends)
        if len(ends) == 2 and numbers and ends[0] < ends[1]:
            return cls(*ends)
        message = f"expected the best score or [worst, best], got {excerpt(spec)}"
        raise ConfigError(message, where="scorer.kwargs.scale", hint="write scale: 10, or scale: [1, 5]")

    def share(self, score: float) -> float | None:
        """The score as a number from 0 to 1; None where it is not on the scale."""
        return (score - self.low) / (self.high - self.low) if self.low <= score <= self.high else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's verdict: its value from 0 to 1, the word if it is one, and the response; None if it cannot be read."""

    value: float | None
    word: str | None
    completion: Completion

    @property
    def is_refused(self) -> bool:
        """Whether the judge, or a filter of its server, refused to judge."""
        return self.completion.ending in ("refused", "filtered")


#: The folder of the rubrics for judges whose task has none of its own, up to how the verdict is written.
_RUBRICS = Path(__file__).with_name("rubrics")
_WORDS = "Reason briefly, then end with one line: %s."
_SCALE = (
    "Reason briefly, then end with one line that grades the answer from {{ scale.low }} (wrong) "
    'to {{ scale.high }} (right): "Score: N".'
)
#: Added to a rubric whose judge writes JSON.
_JSON = 'Answer with one JSON object and nothing else: {"reasoning": "...", "verdict": %s}'


class VerdictReader:
    """Says in a judge's prompt what a verdict looks like, and reads it: a word with a value, or a number on a scale.

    The words are those of `verdicts`, or else the usual ones. The last match of the `pattern` counts; if verdicts are
    `structured`, the key `verdict` of a JSON object. With `pairs`, they are about two answers.
    """

    def __init__(
        self,
        *,
        verdicts: Any = None,
        scale: Any = None,
        pattern: str | None = None,
        pairs: bool = False,
        structured: bool = False,
    ) -> None:
        if pairs and scale is not None:
            message = "two answers are compared by words, not on a scale"
            raise ConfigError(message, where="scorer.kwargs.scale", hint="remove scale or baseline; give verdicts")
        self.pairs, self.structured, self.scaled = pairs, structured, scale is not None
        self.scale = Scale.of(scale)
        self.words = _read_words((_PAIR_GRADES if pairs else _GRADES) if verdicts is None else verdicts)
        #: The words that the judge is told of.
        self._offered = tuple(self.words) if pairs or verdicts is not None else ("correct", "incorrect")
        self._pattern = compile_pattern(pattern or verdict_pattern(self._offered, pairs=pairs), "verdict_pattern")

    def verdict(self, completion: Completion) -> Verdict:
        """The verdict in a response. A refusal has none, whatever it says."""
        verdict, text = Verdict(None, None, completion), completion.text
        found = _json_verdict(text) if self.structured else None
        for match in () if self.structured else self._pattern.finditer(text):
            found = next(filter(None, match.groups()), match[0]).strip()
        if found is None or verdict.is_refused:
            return verdict
        value, word = self._value(found, self.words), found.casefold()
        return Verdict(value, word if word in self.words else None, completion)

    def label(self, label: Any) -> float | None:
        """A person's label of a completion as a number from 0 to 1: a word, or a number on the judge's scale."""
        if isinstance(label, bool):
            return float(label)
        return self._value(str(label).strip(), _PAIR_LABELS if self.pairs else self.words)

    def _value(self, verdict: str, words: Mapping[str, float]) -> float | None:
        """The value of a word, or of a number on the scale; None where it is neither."""
        if verdict.casefold() in words:
            return words[verdict.casefold()]
        number = _NUMBER.fullmatch(verdict)
        if number is None:
            return None
        # "8/10" brings its own scale along.
        own_scale = number[2] and float(number[2]) not in (0, self.scale.high)
        return (Scale(0, float(number[2])) if own_scale else self.scale).share(float(number[1]))

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON schema of a structured response: a number on the scale, or one of the words."""
        if not self.structured:
            return None
        verdict: dict[str, Any] = {"type": "string", "enum": [word.upper() for word in self._offered]}
        if self.scaled:
            verdict = {"type": "number", "minimum": self.scale.low, "maximum": self.scale.high}
        return {
            "type": "object",
            "properties": {"reasoning": {"type": "string"}, "verdict": verdict},
            "required": ["reasoning", "verdict"],
            "additionalProperties": False,
        }

    def rubric(self, own: str | None) -> str:
        """The template of a judge's prompt: the task's `own` rubric, or the default one.

        A judge whose responses are structured is told so below either of them, with the words that it may use.
        """
        if self.structured:
            listed = " or ".join(f'"{word.upper()}"' for word in self._offered)
            ending = _JSON % ("a number from {{ scale.low }} to {{ scale.high }}" if self.scaled else listed)
        elif self.scaled:
            ending = _SCALE
        else:
            *others, last = (f'"Verdict: {word.upper()}"' for word in self._offered)
            ending = _WORDS % " or ".join([", ".join(others), last] if others else [last])
        if own is None:
            usual = _RUBRICS / ("compare.jinja" if self.pairs else "grade.jinja")
            return usual.read_text(encoding="utf-8") + ending
        return f"{own}\n\n{ending}" if self.structured else own


def _read_words(spec: Any) -> dict[str, float]:
    """The words of `verdicts:` in lower case, with their values from 0 to 1."""
    if isinstance(spec, Mapping) and spec and all(isinstance(v, int | float) and 0 <= v <= 1 for v in spec.values()):
        return {str(word).casefold(): float(value) for word, value in spec.items()}
    message = f"expected words with their values from 0 to 1, got {excerpt(spec)}"
    raise ConfigError(message, where="scorer.kwargs.verdicts", hint="write verdicts: {good: 1, fair: 0.5, poor: 0}")


def verdict_pattern(words: Iterable[str], *, pairs: bool) -> str:
    """The pattern of a verdict that is one of the words, or a number where it is not about two answers.

    >>> re.findall(verdict_pattern(["good", "poor"], pairs=False), "Verdict: GOOD, **Score:** 7/10, verdict is goodish")
    ['GOOD', '7/10']
    >>> re.findall(verdict_pattern(["a", "b", "tie"], pairs=True), "Verdict: A? The better is answer B")
    ['A', 'B']
    """
    listed = [re.escape(word) for word in sorted(words, key=len, reverse=True)]
    subject, before = ("verdict|winner|better", "(?:answer |response )?") if pairs else ("verdict|score|grade", "")
    found = "|".join(listed if pairs else [*listed, r"-?\d+(?:\.\d+)?(?:\s*/\s*\d+(?:\.\d+)?)?"])
    return rf"(?i)(?:{subject})[\s*_`\"]*(?:is|:|=)[\s*_`\"(\[]*{before}({found})(?!\w)"


def _json_verdict(text: str) -> str | None:
    """The verdict in the last JSON object of a text.

    >>> _json_verdict('```json\\n{"reasoning": "{right}", "verdict": "CORRECT"}\\n```'), _json_verdict('{"verdict": 4')
    ('CORRECT', None)
    """
    decoder, verdict, position = json.JSONDecoder(), None, text.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            verdict = value.get("verdict", verdict)
        position = text.find("{", end)
    return str(verdict).strip() if isinstance(verdict, str | int | float) and not isinstance(verdict, bool) else None
