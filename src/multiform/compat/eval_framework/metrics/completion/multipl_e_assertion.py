"""Whether code in one of many languages passes its tests, which needs a container to run it in."""

from __future__ import annotations

from multiform.compat.eval_framework.metrics.completion.code_assertion import RunsCode
from multiform.formats.dialects.samples import BaseMetricContext


class MultiPLEMetricContext(BaseMetricContext):
    """The beginning of the code, its tests and its language."""

    prompt: str
    tests: str
    language: str


class MultiPLECodeAssertion(RunsCode):
    """Whether prompt, completion and tests together run."""

    NAME = "MultiPL-E Code Assertion"
