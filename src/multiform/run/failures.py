"""Requests that fail: which responses count as failed, which documents they affect, and what a run does then."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from multiform.errors import shorten
from multiform.requests import Completion, FailedRequest, GenerationRequest, LLOutput, Output, Request
from multiform.results.values import FailedDoc

#: How a run treats failed documents: it ends without results, leaves them out, or counts them as wrong.
OnError = Literal["stop", "skip", "count"]
ON_ERROR: tuple[OnError, ...] = ("stop", "skip", "count")
#: How many failed documents a message names.
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPolicy:
    """What a run does about documents whose requests failed for good.

    `max_failures` is the maximum number of documents that may fail, or their share where it is below 1; beyond it, the
    run ends. None never ends it.
    """

    on_error: OnError = "stop"
    max_failures: float | None = None

    def is_exceeded(self, failed: int, documents: int) -> bool:
        """Whether too many documents have failed.

        >>> [ErrorPolicy(max_failures=limit).is_exceeded(2, 20) for limit in (None, 0, 2, 0.1, 0.05)]
        [False, True, False, False, True]
        """
        if self.max_failures is None:
            return False
        return failed > (self.max_failures if self.max_failures >= 1 else self.max_failures * documents)


def validate_output(request: Request, output: Any) -> Output | FailedRequest:
    """The output, or a failed request where it is invalid, such as a log-likelihood of NaN.

    >>> from multiform.requests import LoglikelihoodRequest
    >>> validate_output(LoglikelihoodRequest("a", "b"), LLOutput(float("nan")))
    FailedRequest(reason='the log-likelihood is nan', retried=0)
    """
    if isinstance(output, FailedRequest):
        return output
    if isinstance(request, GenerationRequest):
        right = isinstance(output, Completion) and isinstance(output.text, str)
        return output if right else FailedRequest(reason=f"expected a completion, got {shorten(output)}")
    if not isinstance(output, LLOutput):
        return FailedRequest(reason=f"expected a log-likelihood, got {shorten(output)}")
    try:
        loglikelihood = float(output.loglikelihood)
    except (TypeError, ValueError):
        return FailedRequest(reason=f"the log-likelihood is {shorten(output.loglikelihood)}")
    if not loglikelihood < math.inf:
        return FailedRequest(reason=f"the log-likelihood is {loglikelihood}")
    return output if type(output.loglikelihood) is float else replace(output, loglikelihood=loglikelihood)


def failure_summary(failed: Mapping[str, Sequence[FailedDoc]], documents: int) -> str:
    """How many documents failed, and which and why for the first of them."""
    docs = [(form, doc) for form, docs in failed.items() for doc in docs]
    named = [f"{form} doc {doc.doc_id} ({doc.reason})" for form, doc in docs[:_NAMED]]
    more = f" and {len(docs) - _NAMED} more" if len(docs) > _NAMED else ""
    return f"{len(docs)} of {documents} documents failed: {', '.join(named)}{more}"
