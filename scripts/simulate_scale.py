"""A run on many workers, simulated: how long it takes, what failures cost, and what breaks first.

    python scripts/simulate_scale.py                        # 10 to 1,000 workers, 10^9 tokens, 1 % of units fail
    python scripts/simulate_scale.py --tokens_per_response 200

Units go to whoever is free, the largest first, as in `engine/executors/pool.py`. A unit that fails kills its worker at
a random point: the responses that were sent stay, the rest is asked again, with the shared prefix of the unit, and a
new worker loads the model first. The driver is one process that takes the messages in their order.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections import deque
from dataclasses import dataclass

#: Seconds of the driver for a response (unpickle, check, store, score) and for a message that holds some of them.
#: The first is measured on one core, the second is an estimate: see docs/scale.md.
RESPONSE_SECONDS = 70e-6
MESSAGE_SECONDS = 700e-6
#: Bytes of a stored response.
STORED_BYTES = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is simulated; times are in seconds."""

    workers: int
    tokens: float = 1e9
    tokens_per_second: float = 5000.0
    tokens_per_response: float = 25.0
    units_per_worker: int = 4
    #: Tokens that begin each unit and are computed again in each.
    prefix: float = 2000.0
    #: The share of units whose worker dies.
    failures: float = 0.01
    load_seconds: float = 120.0
    #: The spread of the workers' speeds, as the sigma of a log-normal distribution.
    spread: float = 0.1
    response_seconds: float = RESPONSE_SECONDS
    message_seconds: float = MESSAGE_SECONDS

    @property
    def pause(self) -> float:
        """Seconds between two messages of a worker, as in `engine/executors/ray.py`."""
        return max(0.2, self.workers / 200)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a simulated run."""

    seconds: float
    workers_seconds: float
    ideal_seconds: float
    lost_tokens: float
    failures: int
    responses: float
    driver_busy: float


def simulate(setting: Setting, seed: int = 0) -> Outcome:
    """One run."""
    rng = random.Random(seed)
    count = setting.workers * setting.units_per_worker
    sizes = sorted((rng.uniform(0.5, 1.5) for _ in range(count)), reverse=True)
    scale = setting.tokens / sum(sizes)
    units = deque((size * scale, False) for size in sizes)
    speeds = [setting.tokens_per_second * rng.lognormvariate(0, setting.spread) for _ in range(setting.workers)]
    free = [(setting.load_seconds, worker) for worker in range(setting.workers)]
    heapq.heapify(free)
    responses = messages = lost = ended = 0.0
    failed = 0
    while units:
        now, worker = heapq.heappop(free)
        tokens, retried = units.popleft()
        speed = speeds[worker]
        begun = now + setting.prefix / speed
        share = 1.0
        if not retried and rng.random() < setting.failures:
            failed += 1
            share = rng.random()
            unsent = min(share * tokens, setting.pause * speed)
            lost += unsent + setting.prefix
            units.append((tokens * (1 - share) + unsent, True))
            share -= unsent / tokens
            end = begun + (share * tokens + unsent) / speed
            heapq.heappush(free, (end + setting.load_seconds, worker))
        else:
            end = begun + tokens / speed
            heapq.heappush(free, (end, worker))
        seconds = share * tokens / speed
        responses += share * tokens / setting.tokens_per_response
        messages += 1 + seconds / setting.pause
        ended = max(ended, end)
    busy = responses * setting.response_seconds + messages * setting.message_seconds
    # The driver takes messages from the first unit on, and is done when it has taken the last.
    seconds = max(ended, setting.load_seconds + busy)
    return Outcome(
        seconds=seconds,
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
    print("workers  makespan s  workers s  ideal s  failed  lost tokens  store rows/s  MB/s  driver busy")
    for workers in options.pop("workers"):
        outcome = simulate(Setting(workers=workers, **options))
        rows = outcome.responses / outcome.seconds
        print(
            f"{workers:7}  {outcome.seconds:10,.0f}  {outcome.workers_seconds:9,.0f}  {outcome.ideal_seconds:7,.0f}  "
            f"{outcome.failures:6}  {outcome.lost_tokens / options['tokens']:11.2%}  {rows:12,.0f}  "
            f"{rows * STORED_BYTES / 1e6:4.1f}  {outcome.driver_busy:11.0%}"
        )


if __name__ == "__main__":
    main()
