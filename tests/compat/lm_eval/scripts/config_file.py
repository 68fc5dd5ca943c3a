"""Run the evaluation that a YAML file describes, with the command line, and read the files that it writes.

config_file.py CONFIG.yaml OUTPUT_FOLDER
"""

import json
import sys
from pathlib import Path

from lm_eval.__main__ import cli_evaluate

config, output = sys.argv[1:]
sys.argv = ["lm_eval", "run", "--config", config, "--output_path", output, "--log_samples"]
cli_evaluate()

(written,) = Path(output).rglob("results_*.json")
results = json.loads(written.read_text())
print("read", results["config"]["model"], float(results["config"]["limit"]), results["n-samples"])
for task, scores in sorted(results["results"].items()):
    for key, value in sorted(scores.items()):
        print("read", task, key, round(value, 4) if isinstance(value, float) else value)
for file in sorted(Path(output).rglob("samples_*.jsonl")):
    for line in file.read_text().splitlines():
        sample = json.loads(line)
        print("read", sample["doc_id"], sample["target"], sample["arguments"], sample["filter"])
