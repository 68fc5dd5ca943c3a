"""Simulated scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.stats


def forms(rng: np.random.Generator, n: int, rates: Sequence[float], correlation: float = 0.6) -> Any:
    """Rights and wrongs of n documents under forms with these rates; documents are easy or hard under all of them."""
    shared = rng.normal(size=(n, 1)) * np.sqrt(correlation)
    return shared + rng.normal(size=(n, len(rates))) * np.sqrt(1 - correlation) < scipy.stats.norm.ppf(rates)
