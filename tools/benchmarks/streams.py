"""Streams: the memory of a run and the seconds before its first response, for more and more requests."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tools.benchmarks.rows import Row
from tools.benchmarks.sides import Setting

CHOICES = 4
QUESTION = "Which of these numbers is the one that comes after {}, if you count by one?"


def measure(setting: Setting) -> Iterator[Row]:
    """Peak memory, seconds before the first response and in all."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for model, most in (("dummy", 2 * 10**6), ("tiny", 10**6)):
            for requests in (10**3, 10**4, 10**5, 10**6, 2 * 10**6):
                if requests > (10**4 if setting.short else most):
                    break
                figures = run_child(folder, model, requests)
                case = f"{model}, {requests:,} requests"
                yield Row(measure="peak memory of a run", case=case, unit="MB", ours=figures["peak_mb"])
                yield Row(measure="before the first response", case=case, unit="s CPU", ours=figures["first"])
                yield Row(measure="a run", case=case, unit="s CPU", ours=figures["cpu"])


def run_child(folder: Path, model: str, requests: int) -> dict[str, float]:
    """The figures of a run in a process of its own."""
    command = [sys.executable, "-m", "tools.benchmarks.streams", str(folder), model, str(requests)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def write_task(folder: Path, docs: int) -> Path:
    """A task of so many documents with four choices, 3-shot."""
    task = folder / f"numbers_{docs}.yaml"
    with (folder / f"numbers_{docs}.jsonl").open("w") as file:
        for number in range(docs):
            question = QUESTION.format(number)
            choices = [str(number + 1), str(number + 2), str(number - 1), f"{number} and a half"]
            file.write(json.dumps({"question": question, "choices": choices, "answer": 0}) + "\n")
    task.write_text(
        f"task: numbers\ndataset_path: numbers_{docs}.jsonl\ntest_split: train\ndoc_to_text: question\n"
        "doc_to_choice: choices\ndoc_to_target: answer\nformats: mcqa\nnum_fewshot: 3\nfewshot_split: train\n"
    )
    return task


def _tiny_model(folder: Path) -> str:
    from tests.tiny_models import llama_config, make_tokenizer, save_random

    path = folder / "tiny"
    if not path.exists():
        tokenizer = make_tokenizer(bos=False, text=f"Question: {QUESTION}\nA. 1 and a half\nB. 2\nAnswer: C\n\n" * 9)
        save_random(path, llama_config(len(tokenizer), max_position_embeddings=4096), tokenizer)
    return str(path)


def _run(folder: Path, model: str, requests: int) -> dict[str, float]:
    from multiform import evaluate
    from multiform.run.progress import Silent

    class FirstResponse(Silent):
        """Notes when the first response comes."""

        at = 0.0

        def on_response(self) -> None:
            if not self.at:
                self.at = time.process_time()

    task = write_task(folder, requests // CHOICES)
    options: dict[str, Any] = {"model": "dummy"}
    if model == "tiny":
        options = {"model": "hf", "model_args": {"pretrained": _tiny_model(folder), "device": "cpu"}}
    progress, begun = FirstResponse(), time.process_time()
    results = evaluate(
        tasks=str(task),
        output_path=folder / "out",
        log_samples=True,
        use_cache=folder / f"{model}_{requests}.db",
        progress=progress,
        **options,
    )
    assert results.forms[0].n == requests // CHOICES
    return {
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "first": progress.at - begun,
        "cpu": time.process_time(),
    }


if __name__ == "__main__":
    print(json.dumps(_run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
