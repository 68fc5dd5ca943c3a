"""lm-eval and its tasks; without the `parity` extra, these tests are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def lm_eval_tasks() -> Path:
    """The folder of the task files that come with lm-eval."""
    pytest.importorskip("lm_eval", reason="lm-eval is not installed: pip install 'multiform[parity]'")
    import lm_eval.tasks

    return Path(lm_eval.tasks.__file__).parent
