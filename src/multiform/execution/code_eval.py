"""pass@k: how likely one of k programs of a model passes the tests of its problem."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import comb
from typing import Any

from multiform.execution.program import Outcome, run_program
from multiform.execution.sandbox import chosen_sandbox


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
        places = [(problem, number) for problem, written in enumerate(predictions) for number in range(len(written))]

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
        passed = [sum(entry["passed"] for _, entry in entries) for entries in results.values()]
        totals = [len(entries) for entries in results.values()]
        values = {
            f"pass@{most}": sum(map(_chance, totals, passed, [most] * len(totals))) / len(totals)
            for most in k
            if totals and min(totals) >= most
        }
        return values, results


def _chance(total: int, passed: int, most: int) -> float:
    """The probability that at least one of `most` programs, drawn from all without repetition, passes."""
    return 1.0 - comb(total - passed, most) / comb(total, most)
