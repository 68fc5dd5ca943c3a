"""Seeds of the random numbers that a task's own code may draw."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence

from multiform.errors import UsageError, shorten

#: Seeds below this are taken by all of python, numpy and torch.
_LIMIT = 2**32


def set_seeds(seeds: Sequence[int | None]) -> None:
    """Seed python, numpy and torch, in this order, where a number is given; torch only where it is loaded."""
    for seed in seeds:
        if seed is not None and not 0 <= seed < _LIMIT:
            what = f"expected a number from 0 to {_LIMIT - 1}, got {shorten(seed)}"
            raise UsageError(what, where="--seed", hint="give e.g. --seed 1234")
    python, numpy_seed, torch_seed = seeds[:3]
    if python is not None:
        random.seed(python)
    if numpy_seed is not None:
        import numpy

        numpy.random.seed(numpy_seed)
    if torch_seed is not None and "torch" in sys.modules:
        sys.modules["torch"].manual_seed(torch_seed)
