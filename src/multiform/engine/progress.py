"""What a run tells while it goes on."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told about every step of a run; the command line shows it."""

    def message(self, text: str) -> None:
        """Something took a moment, or is about to."""

    def begin(self, requests: int, docs: int) -> None:
        """So many distinct requests are about to be asked."""

    def answered(self) -> None:
        """One request has its answer."""

    def scored(self, form: str, metric: str, running: float, n: int) -> None:
        """One more document of a form is scored; its running score is this over n."""

    def end(self) -> None:
        """All is answered, or the run has failed."""


class Silent:
    """Shows nothing."""

    def message(self, text: str) -> None: ...

    def begin(self, requests: int, docs: int) -> None: ...

    def answered(self) -> None: ...

    def scored(self, form: str, metric: str, running: float, n: int) -> None: ...

    def end(self) -> None: ...
