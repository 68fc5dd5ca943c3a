"""How far log-likelihoods in half precision are from those in float32: Multiform and lm-eval.

python -m tools.benchmarks.half_precision [DOCUMENTS]
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tools.benchmarks.sides import ROOT
from tools.benchmarks.workloads import LABELS_TASK, TEXTS_TASK, Workload, multiform_requests

DTYPES = ("bfloat16", "float16")
TASKS = {"labels": LABELS_TASK, "texts": TEXTS_TASK}


def main() -> None:
    """Print one row for each number type and each kind of continuation."""
    from multiform.models.hf.model import bundled_folder

    documents = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    mirror = Path(os.environ.get("MULTIFORM_DATASET_MIRROR") or ROOT.parent / "shared" / "data")
    folder = str(bundled_folder())
    print("dtype      scored  side       mean distance  largest  another pick")
    for kind, task in TASKS.items():
        config = Workload(name=kind, task=task, shots=0).config()
        pairs = [(context, continuation) for context, continuation in multiform_requests(config, mirror, documents)]
        exact = multiform_scores(folder, "float32", pairs)
        for dtype in DTYPES:
            for side, scores in (("Multiform", multiform_scores), ("lm-eval", lm_eval_scores)):
                half = scores(folder, dtype, pairs)
                distance = np.abs(half - exact)
                picks = (half.reshape(-1, 4).argmax(1) != exact.reshape(-1, 4).argmax(1)).sum()
                print(
                    f"{dtype:10} {kind:7} {side:10} {distance.mean():13.4f} {distance.max():8.4f} {picks:9}", flush=True
                )


def multiform_scores(folder: str, dtype: str, pairs: list[tuple[str, str]]) -> NDArray[np.float64]:
    """Log-likelihoods by Multiform."""
    from multiform.models.hf.model import HFModel
    from multiform.requests import LoglikelihoodRequest

    model = HFModel(folder, dtype=dtype, device="cpu")
    outputs = dict(model.loglikelihood([LoglikelihoodRequest(*pair) for pair in pairs]))
    return np.array([outputs[index].loglikelihood for index in range(len(pairs))])


def lm_eval_scores(folder: str, dtype: str, pairs: list[tuple[str, str]]) -> NDArray[np.float64]:
    """Log-likelihoods by lm-eval, one sequence at a time, its default."""
    hflm = importlib.import_module("lm_eval.models.huggingface").HFLM
    model = hflm(pretrained=folder, dtype=dtype, device="cpu", batch_size=1)
    requests = [type("Instance", (), {"args": pair, "task_name": "test"})() for pair in pairs]
    scores = np.array([score for score, _ in model.loglikelihood(requests, disable_tqdm=True)])
    del model
    gc.collect()
    return scores


if __name__ == "__main__":
    main()
