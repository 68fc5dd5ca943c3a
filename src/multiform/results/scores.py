"""Scores of one form or group, looked up by lm-eval's keys or by the name of a metric."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from multiform.errors import UsageError, nearest


class NoSuchResultError(UsageError, KeyError):
    """There is no form, group or metric of that name; also a KeyError, as for any mapping."""


class Scores(dict[str, Any]):
    """The scores of a form or group, keyed ``metric,filter``; ``metric`` is enough where there is one filter.

    >>> scores = Scores("quiz@mcqa", {"alias": "quiz", "acc,none": 0.5, "acc_stderr,none": 0.1})
    >>> scores["acc"], scores["acc_stderr"], scores.get("f1"), "acc" in scores
    (0.5, 0.1, None, True)
    >>> scores["accuracy"]
    Traceback (most recent call last):
    multiform.results.scores.NoSuchResultError: quiz@mcqa: no score 'accuracy'; there are: acc
    """

    def __init__(self, name: str, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.name = name

    def __missing__(self, key: str) -> Any:
        keys = self._keys_of(key)
        if len(keys) == 1:
            return self[keys[0]]
        if keys:
            message, hint = f"'{key}' has several filters", f"ask for {' or '.join(map(repr, keys))}"
            raise NoSuchResultError(message, where=self.name, hint=hint)
        metrics = [name.partition(",")[0] for name in self if "," in name]
        listed = [name for name in dict.fromkeys(metrics) if not name.endswith("_stderr")]
        raise NoSuchResultError(f"no score '{key}'", where=self.name, hint=f"there are: {', '.join(listed) or 'none'}")

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (isinstance(key, str) and len(self._keys_of(key)) == 1)

    def _keys_of(self, metric: str) -> list[str]:
        return [key for key in self if key.partition(",")[0] == metric and "," in key]


def no_such_form(name: str, names: Iterable[str]) -> NoSuchResultError:
    """The error for a form or group that was not run, with those that were."""
    known = list(names)
    hint = f"there are: {', '.join(known)}" if len(known) <= 20 else nearest(str(name), known, listed="there are")
    return NoSuchResultError(f"no form or group '{name}'", where="results", hint=hint)
