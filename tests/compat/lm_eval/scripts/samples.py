"""Read every document's prompt, answers and scores out of the results.

samples.py MODEL_FOLDER TASK_FOLDER
"""

import json
import sys

from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from lm_eval.utils import handle_non_serializable, setup_logging

setup_logging("ERROR")
model, folder = sys.argv[1:]

lm = HFLM(pretrained=model, dtype="float32", device="cpu", batch_size=2)
results = simple_evaluate(
    model=lm,
    tasks=["animals", "spelled"],
    task_manager=TaskManager(include_path=folder, include_defaults=False),
    samples={"animals": [1, 3], "spelled": [0, 2]},
    num_fewshot=0,
    log_samples=True,
)


def rounded(value):
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    return value


for task, samples in results["samples"].items():
    for sample in samples:
        line = {key: rounded(value) for key, value in sample.items()}
        print(task, json.dumps(line, sort_keys=True, default=handle_non_serializable))
