"""Evaluate a model by its name and arguments, read the scores, and print the table.

simple.py MODEL_FOLDER TASK_FOLDER
"""

import sys

import lm_eval
from lm_eval.tasks import TaskManager
from lm_eval.utils import make_table, setup_logging

setup_logging("ERROR")
model, folder = sys.argv[1:]

results = lm_eval.simple_evaluate(
    model="hf",
    model_args=f"pretrained={model},dtype=float32,add_bos_token=False",
    tasks=["both", "choices"],
    task_manager=TaskManager(include_path=folder, include_defaults=False),
    num_fewshot=2,
    batch_size=4,
    device="cpu",
    bootstrap_iters=100,
    log_samples=False,
)

for task, scores in results["results"].items():
    for key, value in scores.items():
        print(task, key, round(value, 4) if isinstance(value, float) else value)
print(results["n-shot"], results["versions"], results["n-samples"], results["higher_is_better"])
print(results["group_subtasks"], results["config"]["model"], results["config"]["limit"], "samples" in results)
print(make_table(results))
print(make_table(results, "groups"))
