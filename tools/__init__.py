"""Tools for the developers: parity with lm-eval, the zoo of architectures, benchmarks and scripts."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]


def mirror_folder() -> Path:
    """The mirror with rows of datasets: that of the environment, or the one beside the repository."""
    return Path(os.environ.get("MULTIFORM_DATASET_MIRROR") or ROOT.parent / "shared" / "data").resolve()
