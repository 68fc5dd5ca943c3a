"""Whether code passes its tests, which needs a container to run it in."""

from __future__ import annotations

from multiform.compat.eval_framework.metrics.completion.code_assertion import RunsCode
from multiform.formats.dialects.samples import BaseMetricContext


class CodeExecutionBaseContext(BaseMetricContext):
    """What is run beside the model's code, and where."""

    run_env: str
    code_prompt: str
    test_code: str
    benchmark_timeout: int = 60
    package_downloads: dict[str, str | None]


class CodeExecutionPassAtOneContext(CodeExecutionBaseContext):
    """The same with the functions that put code and tests together and read their output, as text."""

    snippet_merge_fn: str
    output_parse_fn: str


class CodeExecutionPassAtOne(RunsCode):
    """Whether the code passes its tests."""

    NAME = "code-execution-pass@1"


class CodeExecutionPassAtOneWithCodebench(CodeExecutionPassAtOne):
    """The same in the container of BigCodeBench."""

    NAME = "code-execution-pass@1-codebench"


def estimate_pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that one of k attempts is right, where c of n were."""
    wrong = 1.0
    for i in range(k):
        wrong *= max(n - c - i, 0) / (n - i) if n > i else 0.0
    return 1 - wrong
