"""Flags that may be given more than once, or with several values: each adds to the one before.

What a `--config` file says is a flag's default; the first value on the command line takes its place.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Gather(argparse.Action):
    """Collects what the flag was given on the command line."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        seen: set[str] = vars(namespace).setdefault("given", set())
        before = getattr(namespace, self.dest) if self.dest in seen else None
        seen.add(self.dest)
        given = [values] if isinstance(values, str) else list(values or ())
        setattr(namespace, self.dest, self.gathered(before, given))

    def gathered(self, before: Any, values: Sequence[str]) -> Any:
        return [*(before or ()), *values]


class Arguments(Gather):
    """``key=value,key=value``, several of these, or a JSON object: a dict."""

    def gathered(self, before: Any, values: Sequence[str]) -> dict[str, Any]:
        from multiform.arguments import parse_arguments

        made = dict(before or {})
        for value in values:
            made |= parse_arguments(value, where=f"--{self.dest}")
        return made


class Folders(Gather):
    """Folders, also several in one value as the variable PATH has them."""

    def gathered(self, before: Any, values: Sequence[str]) -> list[str]:
        return [*(before or ()), *(folder for value in values for folder in split_folders(value))]


def split_folders(value: str) -> list[str]:
    """The folders of a value like ``a:b``; a folder whose name has a colon in it stays whole."""
    return [value] if Path(value).exists() else [part for part in value.split(os.pathsep) if part] or [value]
