"""Write results and samples to files with the tracker, and read them again.

tracker.py MODEL_FOLDER TASK_FOLDER OUTPUT_FOLDER
"""

import json
import sys
from pathlib import Path

import lm_eval
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager
from lm_eval.utils import setup_logging

setup_logging("ERROR")
model, folder, output = sys.argv[1:]

tracker = EvaluationTracker(output_path=output)
results = lm_eval.simple_evaluate(
    model="hf",
    model_args={"pretrained": model, "dtype": "float32"},
    device="cpu",
    tasks=["animals", "spelled"],
    task_manager=TaskManager(include_path=folder, include_defaults=False),
    evaluation_tracker=tracker,
    limit=3,
)
samples = results.pop("samples")
tracker.save_results_aggregated(results=results, samples=samples)
for task, some in samples.items():
    tracker.save_results_samples(task_name=task, samples=some)

changing = ("date", "pretty_env_info", "total_evaluation_time_seconds", "start_time", "end_time", "git_hash")


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items() if key not in (*changing, "model_sha")}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    try:
        return round(float(value), 3) if isinstance(value, (float, str)) else value
    except ValueError:
        return value


for file in sorted(Path(output).rglob("*.json*")):
    print(file.parent.name, file.name.partition("_20")[0])
    for line in file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]:
        print(json.dumps(rounded(json.loads(line)), sort_keys=True))
