"""What a run costs: the tokens of a plan, and the dollars of a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multiform.errors import UsageError
from multiform.models import Model
from multiform.models.model import Usage
from multiform.models.prices import Price
from multiform.requests import Request
from multiform.run.documents import Documents
from multiform.run.options import RunOptions
from multiform.run.store import Store


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


def workload_words(workload: Usage) -> str:
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


def plan_text(documents: Documents, options: RunOptions, model: Model, store: Store | None) -> str:
    """The requests of the run and what they would cost, in words, and what its documents can tell."""
    later, asked, cached = 0, set[int](), set[int]()  # hashes of requests: a later chunk may have the same again
    cost, workload, tokens = None, Usage(), Counter[str]()
    in_one = documents.is_one_chunk
    for chunk in documents.chunks():
        requests = dict.fromkeys(instance.request for entry in chunk for instance in entry.sample.instances)
        known = store.known(model.identity, requests) if store and not options.fresh else {}
        missing = [request for request in requests if request not in known and hash(request) not in asked]
        cached.update(map(hash, known))
        asked.update(map(hash, missing))
        later += sum(entry.form.renderer.output_kind.has_stages for entry in chunk)
        if missing and in_one:
            cost = model.plan(missing)
        elif missing:
            workload += model.workload(missing) or Usage()
        tokens.update(model.estimate_tokens(missing) if missing else {})
    if workload != Usage():
        cost = workload_words(workload)
    bound = "at most, as the run stops earlier: " if options.stops_early else ""
    number = len(asked) + len(cached)
    lines = [f"{bound}{number} distinct requests for {documents.total} documents; {len(cached)} of them are cached"]
    if later:
        lines.append(f"{later} documents are asked about again, after these responses: those requests are not counted")
    if asked:
        cost = cost or cost_words(model, tokens, options.prices)
        lines.append(cost or f"model '{model.name}' does not say what the others cost")
    return "\n".join(filter(None, (*lines, documents.detectable_differences())))
