"""An argument parser whose errors are ours: one message, with the flag and the nearest name."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import NoReturn

from multiform.errors import UsageError, nearest


class Parser(argparse.ArgumentParser):
    """Raises a UsageError where argparse would print its usage and exit."""

    def error(self, message: str) -> NoReturn:
        about = re.match(r"argument (?P<names>[^:]+): (?P<what>.*)", message, re.DOTALL)
        if about is None:
            raise UsageError(message, where=self.prog, hint=f"see {self.prog} --help")
        flag = max(about["names"].split("/"), key=len)  # of --limit/-L the longer
        raise UsageError(about["what"], where=flag, hint=f"see {self.prog} --help")

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Raise for arguments that no flag takes."""
        name = unknown[0].partition("=")[0]
        flags = [flag for action in self._actions for flag in action.option_strings]
        if name.startswith("--") or name in flags:
            raise UsageError(f"no flag {name}", where=self.prog, hint=nearest(name, flags, listed="flags"))
        raise UsageError(f"'{unknown[0]}' belongs to no flag", where=self.prog, hint=f"see {self.prog} --help")


def one_of(names: Sequence[str], where: str) -> Callable[[str], str]:
    """A type of argument: one of the names, in any case, or an error with the nearest of them."""

    def parse(text: str) -> str:
        found = [name for name in names if name.lower() == text.lower()]
        if not found:
            raise UsageError(f"no '{text}'", where=where, hint=nearest(text, names, listed="there are"))
        return found[0]

    return parse
