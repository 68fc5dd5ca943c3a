"""A run on many workers, simulated: how long it takes, what failures cost, and what breaks first.

    python tools/scripts/simulate_scale.py                        # 10 to 1,000 workers, 10^9 tokens, 1 % of units fail
    python tools/scripts/simulate_scale.py --tokens_per_response 200

The driver renders the first chunk of documents before workers load the model. Ranges of documents go to whoever is
free, smaller ones towards the end, as in `run/executors/ranges.py`; a worker renders and scores them, and draws the
few-shot examples of documents that others have got. A range that fails kills its worker at a random point: the
documents that were sent stay, the rest is run again, and a new worker loads the model first. The driver is one process
that takes the messages in their order.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections import deque
from dataclasses import dataclass

#: Seconds of the driver to render a request of the first chunk, for a response (store, merge), and for a message; and
#: the requests of a chunk. Measured by `python -m tools.benchmarks --only driver`: see docs/scale.md.
REQUEST_SECONDS = 60e-6
RESPONSE_SECONDS = 6e-6
MESSAGE_SECONDS = 400e-6
CHUNK = 16_384
#: Seconds of a worker to render, score and send a response, and to draw the examples of a document of another worker;
#: the requests of a document, and those of a range, at most.
WORKER_SECONDS = 200e-6
SKIP_SECONDS = 4e-6
REQUESTS_PER_DOC = 4
RANGE = 4096
#: Bytes of a stored response.
STORED_BYTES = 120
#: The share of tokens that cuts add at most.
CUTS = 0.04


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is simulated; times are in seconds."""

    workers: int
    tokens: float = 1e9
    tokens_per_second: float = 5000.0
    tokens_per_response: float = 25.0
    #: Tokens that begin each range and are computed again in each.
    prefix: float = 2000.0
    #: The share of ranges, of 40,000 tokens or more, whose worker dies.
    failures: float = 0.01
    load_seconds: float = 120.0
    #: The spread of the workers' speeds, as the sigma of a log-normal distribution.
    spread: float = 0.1
    request_seconds: float = REQUEST_SECONDS
    response_seconds: float = RESPONSE_SECONDS
    message_seconds: float = MESSAGE_SECONDS

    @property
    def pause(self) -> float:
        """Seconds between two messages of a worker, as in `run/executors/ray.py`."""
        return max(0.2, self.workers / 200)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a simulated run.

    `prepared_seconds` pass before workers have anything to do; `seconds` are all, with these.
    """

    seconds: float
    prepared_seconds: float
    workers_seconds: float
    ideal_seconds: float
    lost_tokens: float
    failures: int
    responses: float
    driver_busy: float


def predicted_seconds(
    *,
    tokens: float,
    tokens_per_second: float,
    workers: int,
    requests: float = 0.0,
    load_seconds: float = 0.0,
    has_failures: bool = False,
) -> float:
    """The cost model of docs/scale.md: how long a run takes, about."""
    run = (1 + CUTS) * tokens / (tokens_per_second * workers) + requests * WORKER_SECONDS / workers
    run += requests / REQUESTS_PER_DOC * SKIP_SECONDS if workers > 1 else 0.0
    replaced = load_seconds / 4 if has_failures else 0.0  # others take over its share meanwhile
    prepared = min(requests, CHUNK) * REQUEST_SECONDS
    return prepared + load_seconds + max(run + replaced, requests * RESPONSE_SECONDS)


def _ranges(setting: Setting, rng: random.Random) -> deque[tuple[float, bool]]:
    """The tokens of each range, of which none has failed."""
    ranges: deque[tuple[float, bool]] = deque()
    left = setting.tokens
    while left > 0:
        size = min(RANGE * setting.tokens_per_response, left / (4 * setting.workers))
        size = min(left, max(REQUESTS_PER_DOC * setting.tokens_per_response, size * rng.uniform(0.5, 1.5)))
        ranges.append((size, False))
        left -= size
    return ranges


def simulate(setting: Setting, seed: int = 0) -> Outcome:
    """One run."""
    rng = random.Random(seed)
    ranges = _ranges(setting, rng)
    speeds = [setting.tokens_per_second * rng.lognormvariate(0, setting.spread) for _ in range(setting.workers)]
    free = [(setting.load_seconds, worker) for worker in range(setting.workers)]
    heapq.heapify(free)
    requests = setting.tokens / setting.tokens_per_response
    #: Where each worker is among the documents, as a share of all, and where the next range begins.
    places, place = [0.0] * setting.workers, 0.0
    responses = messages = lost = ended = 0.0
    failed = 0
    while ranges:
        now, worker = heapq.heappop(free)
        tokens, retried = ranges.popleft()
        speed = speeds[worker]
        skipped = max(0.0, place - places[worker]) * requests / REQUESTS_PER_DOC
        place = place if retried else place + tokens / setting.tokens
        places[worker] = place
        begun = now + setting.prefix / speed + skipped * SKIP_SECONDS
        per_token = 1 / speed + WORKER_SECONDS / setting.tokens_per_response
        share = 1.0
        if not retried and rng.random() < setting.failures * min(1.0, tokens / 40_000):
            failed += 1
            share = rng.random()
            unsent = min(share * tokens, setting.pause * speed)
            lost += unsent + setting.prefix
            ranges.append((tokens * (1 - share) + unsent, True))
            share -= unsent / tokens
            end = begun + (share * tokens + unsent) * per_token
            heapq.heappush(free, (end + setting.load_seconds, worker))
            places[worker] = 0.0
        else:
            end = begun + tokens * per_token
            heapq.heappush(free, (end, worker))
        responses += share * tokens / setting.tokens_per_response
        messages += 1 + share * tokens * per_token / setting.pause
        ended = max(ended, end)
    busy = responses * setting.response_seconds + messages * setting.message_seconds
    prepared = min(requests, CHUNK) * setting.request_seconds
    # The driver takes messages from the first range on, and is done when it has taken the last.
    return Outcome(
        seconds=prepared + max(ended, setting.load_seconds + busy),
        prepared_seconds=prepared,
        workers_seconds=ended,
        ideal_seconds=setting.load_seconds + setting.tokens / sum(speeds),
        lost_tokens=lost,
        failures=failed,
        responses=responses,
        driver_busy=busy / (ended - setting.load_seconds),
    )


def main() -> None:
    """Print a table of runs of 10 to 1,000 workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("tokens", "tokens_per_second", "tokens_per_response", "failures", "load_seconds", "response_seconds"):
        parser.add_argument(f"--{name}", type=float, default=Setting.__dataclass_fields__[name].default)
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 30, 100, 300, 1000])
    options = vars(parser.parse_args())
    print("| workers | makespan | formula | ideal | of the ideal | driver busy | failures | tokens lost | stored |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for workers in options.pop("workers"):
        setting = Setting(workers=workers, **options)
        print(_line(setting, simulate(setting)))


def _line(setting: Setting, outcome: Outcome) -> str:
    """A line of the table, in Markdown."""
    formula = predicted_seconds(
        tokens=setting.tokens,
        tokens_per_second=setting.tokens_per_second,
        workers=setting.workers,
        requests=setting.tokens / setting.tokens_per_response,
        load_seconds=setting.load_seconds,
        has_failures=outcome.failures > 0,
    )
    rows = outcome.responses / (outcome.seconds - outcome.prepared_seconds - setting.load_seconds)
    cells = [
        f"{setting.workers:,}",
        f"{outcome.seconds:,.0f} s",
        f"{formula:,.0f} s",
        f"{outcome.ideal_seconds:,.0f} s",
        f"{outcome.ideal_seconds / outcome.seconds:.0%}",
        f"{outcome.driver_busy:.0%}",
        f"{outcome.failures}",
        f"{outcome.lost_tokens / setting.tokens:.2%}",
        f"{rows:,.0f}/s, {rows * STORED_BYTES / 1e6:.1f} MB/s",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
