"""Limits of a run: which requests count as failed and what becomes of their documents, and what the run may cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from multiform.errors import UsageError, shorten
from multiform.models import Model
from multiform.models.model import Workload
from multiform.models.prices import Price
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a model on a server has cost since the run began."""

    model: Model
    #: None where no price is known, or there is no server.
    price: Price | None
    #: The tokens that the server had counted when the run began: several runs may share a model.
    before: Mapping[str, int]
    #: The most that the run may cost, in dollars.
    limit: float | None = None

    @classmethod
    def of(cls, model: Model, prices: str | Path | None, limit: float | None) -> Spending:
        """The spending of a run that begins; a limit that cannot be kept is refused."""
        price = model.price(None if prices is None else Path(prices))
        if limit is not None and price is None:
            message = f"the price of '{model.name}' is not known"
            hint = 'give --prices FILE with a line such as "my-model" = [0.40, 1.60]'
            raise UsageError(message, where="max_cost", hint=hint)
        model.identity  # noqa: B018  (the probe of a server is no request of the run)
        return cls(model=model, price=price, before=model.server_tokens(), limit=limit)

    @property
    def tokens(self) -> dict[str, int]:
        """The tokens that the server has counted since then."""
        return {name: count - self.before.get(name, 0) for name, count in self.model.server_tokens().items()}

    @property
    def cost(self) -> float:
        return 0.0 if self.price is None else self.price.cost(self.tokens)

    @property
    def is_exceeded(self) -> bool:
        """Whether the run has cost more than it may."""
        return self.limit is not None and self.cost > self.limit

    def check(self, requests: Sequence[Request]) -> None:
        """Refuse requests that go out in batches, which cannot be stopped at a cost, if they may cost too much."""
        if self.limit is None or self.price is None or not self.model.batch:
            return
        most = self.cost + self.price.cost(self.model.estimate_tokens(requests))
        if most > self.limit:
            message = f"a batch cannot be stopped at a cost, and these may cost up to about {dollars(most)}"
            raise UsageError(message, where="max_cost", hint="raise it, lower --limit, or leave batch out")

    def entries(self) -> dict[str, Any]:
        """The keys `server_tokens` and `cost` of a run's configuration."""
        tokens = self.tokens
        if not any(tokens.values()):
            return {}
        if self.price is None:
            return {"server_tokens": tokens}
        price = {"prompt": self.price.prompt, "completion": self.price.completion}
        return {"server_tokens": tokens, "cost": {"dollars": round(self.cost, 6), "dollars_per_million_tokens": price}}


def workload_words(workload: Workload) -> str:
    """What requests take, in words: the tokens to compute, and those saved by prefix sharing."""
    words = f"{workload.prefill:,} prompt tokens to compute"
    if workload.unshared > workload.prefill:
        times = workload.unshared / max(1, workload.prefill)
        words += f" for {workload.unshared:,} ({times:.1f} times less, as prompts share their beginnings)"
    if workload.completions:
        words += f", and at most {workload.decode:,} tokens of {workload.completions:,} completions"
    return words


def cost_words(model: Model, tokens: Mapping[str, int], prices: str | Path | None) -> str | None:
    """What tokens of a server would cost, in words; None where it counts none."""
    if not tokens:
        return None
    counts = f"about {tokens['prompt']:,} tokens of prompts, and at most {tokens['completion']:,} of completions"
    price = model.price(None if prices is None else Path(prices))
    if price is None:
        return f"{counts}; the price of '{model.name}' is not known: give --prices FILE"
    least, most = price.cost({"prompt": tokens["prompt"]}), price.cost(tokens)
    return f"{counts}: {dollars(least)} to {dollars(most)}, at {price}"


def dollars(amount: float) -> str:
    """An amount with at least two digits that count.

    >>> dollars(12.3456), dollars(0.000123), dollars(0)
    ('$12.35', '$0.00012', '$0.00')
    """
    return f"${amount:.2f}" if amount >= 0.1 or amount == 0 else f"${float(f'{amount:.2g}'):.12f}".rstrip("0")
