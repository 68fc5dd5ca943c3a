"""Keeps the progress bars, warnings and logs of libraries out of what a command prints."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

logger = logging.getLogger("multiform")

#: What libraries read when they are imported, which is later than this.
_SETTINGS = {
    "TQDM_DISABLE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_VERBOSITY": "error",
    "TRANSFORMERS_VERBOSITY": "error",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "DATASETS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "true",
}


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Show nothing of what libraries say on their own; what the user has set in the environment is kept.

    Warnings of Python code and logs without a handler are logged as debug messages of Multiform, for
    ``--verbosity DEBUG``.
    """
    # On a terminal, downloads show their progress.
    left_out = ("HF_HUB_DISABLE_PROGRESS_BARS",) if sys.stderr.isatty() else ()
    unset = [name for name in _SETTINGS if name not in os.environ and name not in left_out]
    os.environ.update({name: _SETTINGS[name] for name in unset})
    shown, root, handler = warnings.showwarning, logging.getLogger(), _ToDebug()
    warnings.showwarning = _log_warning  # type: ignore[assignment]
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        warnings.showwarning = shown
        for name in unset:
            os.environ.pop(name, None)


class _ToDebug(logging.Handler):
    """Passes what other loggers say on to that of Multiform, which shows it with ``--verbosity DEBUG``."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != logger.name:
            logger.debug("%s: %s", record.name, record.getMessage())


def _log_warning(message: Warning | str, category: type[Warning], filename: str, lineno: int, *details: Any) -> None:
    logger.debug("%s:%d: %s: %s", filename, lineno, category.__name__, message)
