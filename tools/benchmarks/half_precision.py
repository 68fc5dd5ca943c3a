"""How far log-likelihoods in half precision are from those in float32: Multiform and lm-eval.

python -m tools.benchmarks.half_precision [DOCUMENTS]
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools import mirror_folder
from tools.benchmarks.answering import Side, lm_eval_side, multiform_side
from tools.benchmarks.workloads import LABELS_TASK, TEXTS_TASK, Workload, multiform_requests

DTYPES = ("bfloat16", "float16")
TASKS = {"labels": LABELS_TASK, "texts": TEXTS_TASK}
#: lm-eval computes one sequence at a time, its default.
SIDES: dict[str, Callable[..., Side]] = {"Multiform": multiform_side, "lm-eval": partial(lm_eval_side, batch_size=1)}


def main() -> None:
    """Print one row for each number type and each kind of continuation."""
    from multiform.models.hf.model import bundled_folder

    documents = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    folder = str(bundled_folder())
    print("dtype      scored  side       mean distance  largest  another pick")
    for kind, task in TASKS.items():
        config = Workload(name=kind, task=task, shots=0).config()
        requests = multiform_requests(config, mirror_folder(), documents)
        exact = scores(multiform_side, folder, "float32", requests)
        for dtype in DTYPES:
            for name, side in SIDES.items():
                half = scores(side, folder, dtype, requests)
                distance = np.abs(half - exact)
                picks = (half.reshape(-1, 4).argmax(1) != exact.reshape(-1, 4).argmax(1)).sum()
                print(
                    f"{dtype:10} {kind:7} {name:10} {distance.mean():13.4f} {distance.max():8.4f} {picks:9}", flush=True
                )


def scores(side: Callable[..., Side], folder: str, dtype: str, requests: list[list[Any]]) -> NDArray[np.float64]:
    """The log-likelihoods of a side, whose model is then forgotten."""
    found = np.array([loglikelihood for loglikelihood, _ in side(folder, dtype=dtype)[1](requests)])
    gc.collect()
    return found


if __name__ == "__main__":
    main()
