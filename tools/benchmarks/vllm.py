"""vLLM: scoring by Multiform's `vllm` model beside lm-eval's, and decoding by `hf` beside `vllm`; with equal results.

Run with the Python of the environment that has vLLM (make bench-vllm). Each side has a process of its own, one after
the other; what its processes use from the first request to the last response is counted, not the start. Decoding is
what completions of many tokens take beyond those of one token.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tools import ROOT, mirror_folder
from tools.benchmarks.answering import PER_TOKEN, Answer, differences, errors, lm_eval_answer, multiform_answer
from tools.benchmarks.sides import NAMES
from tools.benchmarks.tables import Row, print_rows, say
from tools.benchmarks.workloads import WORKLOADS, multiform_requests

#: Both sides run vLLM like this.
ENGINE: dict[str, Any] = {"dtype": "float32", "max_model_len": 2048, "enforce_eager": True}
#: One thread, so that CPU seconds are work and not waiting, on no particular core.
VARIABLES = {
    "VLLM_CPU_KVCACHE_SPACE": "2",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
}
VERSION = metadata.version
#: The name of the package with vLLM: the build for CPUs has another one.
VLLM_PACKAGE = metadata.packages_distributions().get("vllm", ["vllm"])[0]
WORKLOAD = "texts, 5-shot"
NEEDED = 5.0
#: Completions that are decoded together, and the tokens of each.
DECODED, TOKENS = 16, 64


def multiform_side(folder: str) -> Answer:
    """Multiform's model."""
    from multiform.models.vllm.model import VLLMModel

    return multiform_answer(VLLMModel(folder, **ENGINE))


def lm_eval_side(folder: str) -> Answer:
    """lm-eval's model."""
    from vllm.platforms import current_platform  # which is told by the name of the installed package

    say(f"vLLM runs on {current_platform.device_type}")
    # lm-eval's module asks for the version of the package 'vllm'.
    with patch.object(metadata, "version", lambda name: VERSION(VLLM_PACKAGE if name == "vllm" else name)):
        from lm_eval.models.vllm_causallms import VLLM

    return lm_eval_answer(VLLM(pretrained=folder, batch_size="auto", **ENGINE))


def hf_decoding(folder: str, matmul: str = "torch") -> Answer:
    """Multiform's `hf` model, which decodes."""
    from multiform.models.hf.model import HFModel

    options = {"dtype": "float32", "batch_size": DECODED, "max_length": ENGINE["max_model_len"], "matmul": matmul}
    return multiform_answer(HFModel(folder, **options))


def vllm_decoding(folder: str) -> Answer:
    """Multiform's `vllm` model, which decodes."""
    from multiform.models.vllm.model import VLLMModel

    return multiform_answer(VLLMModel(folder, **ENGINE, max_num_seqs=DECODED, enable_prefix_caching=False))


SIDES: dict[str, Callable[[str], Answer]] = {
    "multiform": multiform_side,
    "lm-eval": lm_eval_side,
    "hf": hf_decoding,
    "hf, matmul=onednn": partial(hf_decoding, matmul="onednn"),
    "vllm": vllm_decoding,
}


def child(side: str, job: dict[str, Any]) -> dict[str, Any]:
    """Load the model of a side, and take the CPU time of all its processes while it answers."""
    answer = SIDES[side](job["model"])
    answer(job["warm"])  # what vLLM compiles when it is first asked is part of its start
    result: dict[str, Any] = {"cpu": 0.0}
    for key in ("before", "requests"):
        before, began = processes_cpu(), time.monotonic()
        answers = answer(job[key]) if job.get(key) else []
        result = {"cpu": processes_cpu() - before, "wall": time.monotonic() - began, "cpu_before": result["cpu"]}
    return {**result, "answers": answers}


def processes_cpu() -> float:
    """The CPU seconds of this process and those that it started."""
    import psutil  # comes with vLLM

    this = psutil.Process(os.getpid())
    return sum(sum(each.cpu_times()[:2]) for each in (this, *this.children(recursive=True)))


def measured(side: str, job: dict[str, Any]) -> dict[str, Any]:
    """Run a side in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        argv = [sys.executable, "-m", "tools.benchmarks.vllm", "--side", side, "--folder", name]
        with (folder / "log.txt").open("w") as log:
            done = subprocess.run(argv, cwd=ROOT, env={**os.environ, **VARIABLES}, stdout=log, stderr=log, check=False)
        if done.returncode:
            raise SystemExit(f"{side} failed:\n{(folder / 'log.txt').read_text()[-3000:]}")
        result: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    say(f"{side}: {result['cpu']:.1f} s CPU, {result['wall']:.1f} s")
    return result


def main() -> int:
    """Run both sides; 1 where the needed ratio was missed, 2 where there is nothing to measure on."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.vllm", description=__doc__)
    parser.add_argument("--docs", type=int, default=20, help="number of documents (default: 20)")
    parser.add_argument("--model", type=Path, help="a folder with a model (default: the bundled one)")
    parser.add_argument("--output", type=Path, default=ROOT / "out" / "benchmarks-vllm.json", help="the table as JSON")
    parser.add_argument("--only", choices=("scoring", "decoding"), help="one part (default: both)")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        job = json.loads((options.folder / "job.json").read_text(encoding="utf-8"))
        (options.folder / "result.json").write_text(json.dumps(child(options.side, job)), encoding="utf-8")
        return 0
    mirror = mirror_folder()
    if not (mirror / "cais" / "mmlu").is_dir():
        say(f"no rows of MMLU at {mirror}: set MULTIFORM_DATASET_MIRROR to a mirror that has cais/mmlu")
        return 2
    folder = str(options.model or _bundled())
    parts = {"scoring": scoring_rows, "decoding": decoding_rows}
    rows = [
        row
        for name, part in parts.items()
        if options.only in (None, name)
        for row in part(folder, mirror, options.docs)
    ]
    print_rows(rows)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps([row.to_json() for row in rows], indent=2) + "\n", encoding="utf-8")
    return 1 if any(row.met is False for row in rows) else 0


def scoring_rows(folder: str, mirror: Path, docs: int) -> list[Row]:
    """Texts scored in vLLM, by Multiform and by lm-eval."""
    from multiform.models.tokenizer import load_encoder

    workload = next(workload for workload in WORKLOADS if workload.name == WORKLOAD)
    requests = multiform_requests(workload.config(), mirror, docs)
    pairs = load_encoder(folder, None, None).pairs([(context, text) for context, text in requests])
    scored = [len(pair.continuation) for pair in pairs]
    job = {"model": folder, "requests": requests, "warm": [["One, two, three,", " four and five"], ["One", " two"]]}
    ours, theirs = (measured(side, job) for side in NAMES)
    if wrong := differences(requests, ours["answers"], theirs["answers"], scored):
        raise SystemExit(f"{len(wrong)} answers differ, such as {'; '.join(wrong[:3])}")
    case, off = f"{WORKLOAD}, {docs} docs", max(errors(ours["answers"], theirs["answers"], scored))
    return [
        Row(measure="CPU time in vLLM", case=case, unit="s", ours=ours["cpu"], theirs=theirs["cpu"], needed=NEEDED),
        Row(measure="error", case=case, unit="per token", ours=off, needed=PER_TOKEN),
    ]


def decoding_rows(folder: str, mirror: Path, docs: int) -> list[Row]:
    """Completions of a fixed length by the `hf` model and by vLLM: the time of a token, and of the prompts."""
    workload = next(workload for workload in WORKLOADS if workload.name == "labels, 0-shot")
    contexts = list(dict.fromkeys(context for context, _ in multiform_requests(workload.config(), mirror, docs)))

    def requests(tokens: int) -> list[Any]:
        return [[context, {"max_gen_toks": tokens, "until": []}] for context in contexts]

    warm = [["One, two, three,", {"max_gen_toks": 8}]]
    job = {"model": folder, "warm": warm, "before": requests(1), "requests": requests(TOKENS)}
    *ours, theirs = (measured(side, job) for side in ("hf", "hf, matmul=onednn", "vllm"))
    case = f"{len(contexts)} prompts, {TOKENS} tokens, batches of {DECODED}"
    rows = []
    for side, result in zip(("hf", "hf, matmul=onednn"), ours, strict=True):
        equal = sum(one == other for one, other in zip(result["answers"], theirs["answers"], strict=True))
        note = f"{equal} of {len(contexts)} completions are equal"
        prompts, others = result["cpu_before"], theirs["cpu_before"]
        rows.append(Row(measure=f"prefill, {side} / vLLM", case=case, unit="s", ours=prompts, theirs=others))
        decoded = {"ours": result["cpu"] - prompts, "theirs": theirs["cpu"] - others}
        rows.append(Row(measure=f"decoding, {side} / vLLM", case=case, unit="s", note=note, **decoded))
    return rows


def _bundled() -> Path:
    from multiform.models.hf.model import bundled_folder

    return bundled_folder()


if __name__ == "__main__":
    sys.exit(main())
