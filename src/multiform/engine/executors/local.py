"""The local executor: one model, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from multiform.engine.executors.base import Unit
from multiform.errors import ModelError, MultiformError, reason
from multiform.models.model import Model
from multiform.requests import FailedRequest, LoglikelihoodRequest, Output, Request, RollingRequest
from multiform.stopping import stop_requested


class LocalExecutor:
    """Runs one unit after the other on the model."""

    asked_again = 0

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, units: Sequence[Unit]) -> Iterator[tuple[Request, Output | FailedRequest]]:
        for unit in units:
            if stop_requested():
                return
            yield from self._responses(unit)

    def _responses(self, unit: Unit) -> Iterator[tuple[Request, Output | FailedRequest]]:
        if kinds := {
            item.kind for request in unit if not isinstance(request, RollingRequest) for item in request.media
        }:
            self.model.check_media(kinds)
        missing = dict.fromkeys(range(len(unit)))
        name = self.model.name
        try:
            for position, output in self._method(unit)(unit):
                if position not in missing:
                    message = (
                        f"model '{name}' gave a second response to request {position}, or there is no such request"
                    )
                    raise ModelError(message, hint="yield one (position, output) for each request")
                del missing[position]
                yield unit[position], output
                if stop_requested() and not self.model.handles_stop:
                    return
        except MultiformError:
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError, OSError) as error:
            message = f"model '{name}' failed: {reason(error)}"
            raise ModelError(message, hint="run again with a smaller --batch_size or another device") from error
        if not stop_requested():
            for position in missing:
                yield unit[position], FailedRequest(reason=f"model '{name}' gave no response")

    def _method(self, unit: Unit) -> Callable[[Any], Iterator[tuple[int, Output | FailedRequest]]]:
        """The method of the model for the kind of the unit's requests."""
        if isinstance(unit[0], LoglikelihoodRequest):
            return self.model.loglikelihood
        if isinstance(unit[0], RollingRequest):
            return self.model.loglikelihood_rolling
        return self.model.generate
