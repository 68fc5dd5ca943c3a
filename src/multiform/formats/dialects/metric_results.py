"""The values of metric classes, with the fields of eval-framework's; imported when a metric calculates its values."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Error(BaseModel):
    """Why there is no response or no value."""

    model_config = ConfigDict(extra="forbid")

    error_class: str
    message: str
    traceback: str


class MetricResult(BaseModel):
    """One value of a metric; None if it could not be computed, with the error that says why."""

    model_config = ConfigDict(extra="forbid")

    metric_name: str
    value: float | None
    higher_is_better: bool
    llm_judge_prompt: str | None = None
    llm_judge_response: str | None = None
    code_execution_trace: str | None = None
    error: Error | None = None
