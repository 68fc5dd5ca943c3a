"""One program of a model: run in a sandbox, called by its tests from another process."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from math import comb
from typing import Any

from multiform.errors import ModelError
from multiform.sandbox.launch import chosen_sandbox, run_in_sandbox

logger = logging.getLogger("multiform")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a program passed its tests, and why not; `protection` lists what kept it from the machine."""

    passed: bool
    result: str
    protection: tuple[str, ...] = ()


def run_program(
    source: str, checks: str = "", *, seconds: float = 3.0, megabytes: int = 2048, sandbox: str | None = None
) -> Outcome:
    """Run an untrusted Python program, then its tests, which call what it defines.

    The tests run in another process than the program, which cannot forge their result. Without tests, a program
    passes that runs to its end, by its own word. It gets an empty folder, no environment and no network.

    >>> run_program("def f(x): return 2 * x", "assert f(2) == 4").result
    'passed'
    >>> run_program("def f(x): return x", "assert f(2) == 4").result
    'AssertionError: '
    """
    sandbox = sandbox or chosen_sandbox()
    report, words = run_in_sandbox(sandbox, source, checks, seconds=seconds, megabytes=megabytes)
    if report is None:
        message = f"the sandbox {sandbox} could not be started for a program: {words}"
        raise ModelError(message, hint="check the memory and the processes of the machine, and run it again")
    protection = (sandbox, *report["protection"])
    if report["protection"]:
        _say_once(protection)
    return Outcome(report["passed"] is True, str(report["result"]), protection)


@cache
def _say_once(protection: tuple[str, ...]) -> None:
    logger.info("programs of the model run in a sandbox: %s", ", ".join(protection))
    if protection[0] == "none":
        logger.warning("--sandbox none: programs of the model run with your rights on your files and your network")


class CodeEval:
    """The metric `code_eval` of the library evaluate: the same arguments and results, but in a sandbox."""

    def compute(
        self,
        *,
        references: Sequence[str],
        predictions: Sequence[Sequence[str]],
        k: Sequence[int] = (1, 10, 100),
        num_workers: int = 4,
        timeout: float = 3.0,
    ) -> tuple[dict[str, float], dict[int, list[tuple[int, dict[str, Any]]]]]:
        """The value of pass@k for each k, and what became of each program by problem.

        >>> tests, programs = ["assert f(2) == 4"], [["def f(x): return 2 * x", "def f(x): return x"]]
        >>> CodeEval().compute(references=tests, predictions=programs, k=[1, 2])[0]
        {'pass@1': 0.5, 'pass@2': 1.0}
        """
        sandbox = chosen_sandbox()  # here, as threads do not know what was chosen
        places = [(problem, number) for problem, programs in enumerate(predictions) for number in range(len(programs))]

        def outcome(place: tuple[int, int]) -> Outcome:
            problem, number = place
            program, tests = predictions[problem][number], references[problem]
            return run_program(program, tests, seconds=timeout, sandbox=sandbox)

        results: dict[int, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
        with ThreadPoolExecutor(max_workers=num_workers) as pool:
            for (problem, number), result in zip(places, pool.map(outcome, places), strict=True):
                described = {
                    "task_id": problem,
                    "passed": result.passed,
                    "completion_id": number,
                    "result": result.result,
                }
                results[problem].append((number, described))
        # The probability that at least one of `most` programs, drawn from all without repetition, passes.
        counts = [(len(entries), sum(entry["passed"] for _, entry in entries)) for entries in results.values()]
        values = {
            f"pass@{most}": sum(1.0 - comb(n - right, most) / comb(n, most) for n, right in counts) / len(counts)
            for most in k
            if counts and min(counts)[0] >= most
        }
        return values, results
