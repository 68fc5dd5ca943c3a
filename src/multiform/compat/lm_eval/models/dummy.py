"""The model that knows nothing."""

from __future__ import annotations

from multiform.compat.lm_eval.models.wrapped import ModelLM


class DummyLM(ModelLM):
    """Answers that depend on the request alone; lm-eval's are random."""

    model_name = "dummy"
