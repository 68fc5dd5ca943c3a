"""`make gpu-check`: the engine on this machine's accelerator, against the CPU and lm-eval; writes a report to send.

Three parts: architectures of the zoo against their own forward pass on the device, scores and completions of a model
on the device against those on the CPU, and the time that the requests of a quiz take beside lm-eval.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import platform
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers

from tools.benchmarks.answering import SIDES
from tools.benchmarks.workloads import plain_request
from tools.zoo.check import Finding, check
from tools.zoo.models import zoo_model

#: Architectures that share a prefix tree, go on from copied states, or are computed in batches.
SAMPLE = ("llama", "gemma2", "gemma3_text", "gpt2", "qwen3_moe", "mistral", "gpt_neo", "mamba2", "qwen3_next", "bamba")
#: A task under the formats that score labels, score texts and generate.
TASKS = {"labels": "quiz@mcqa", "texts": "quiz@cloze", "completions": "quiz@generate"}
SHOTS = 5
#: A difference of log-likelihoods, for each token, that is more than rounding in float32.
TOLERANCE = 1e-4
_ZOO_HEAD = ("| architecture | scoring | generation | difference | agrees |", "|---|---|---|---|---|")
_PARITY_HEAD = (
    "| requests | number | largest difference of a log-likelihood | equal flags or texts |",
    "|---|---|---|---|",
)
_TIME_HEAD = ("| requests | number | Multiform | lm-eval | lm-eval / Multiform |", "|---|---|---|---|---|")


def accelerator() -> str | None:
    """The name of the device that is no CPU; None where there is none."""
    device = torch.accelerator.current_accelerator(check_available=True)
    return device.type if device else None


def main(argv: Sequence[str] | None = None) -> int:
    """Check a device: 0 if everything agrees, 1 if not, 2 if there is no accelerator."""
    parser = argparse.ArgumentParser(prog="python -m tools.gpu_check", description=__doc__)
    parser.add_argument("--device", help="a device (default: this machine's accelerator); cpu checks the check")
    parser.add_argument("--model", help="a folder or a name on the hub (default: the bundled model)")
    parser.add_argument("--docs", type=int, default=40, help="documents of the quiz (default: 40)")
    parser.add_argument("--zoo", nargs="*", default=SAMPLE, metavar="NAME", help="architectures (default: a sample)")
    parser.add_argument("--output", type=Path, default=Path("gpu_report.md"), help="the report")
    options = parser.parse_args(argv)
    device = options.device or accelerator()
    if device is None:
        print("no accelerator here: torch sees CPUs only (--device cpu runs the check on them)", file=sys.stderr)
        return 2
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        print(f"no device '{device}' here: {str(error).splitlines()[0]}", file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    model = options.model or _bundled()
    requests = {kind: quiz_requests(task, options.docs) for kind, task in TASKS.items()}
    is_right = True
    with options.output.open("w", encoding="utf-8") as file:
        for line, is_fine in report(device, model, requests, options.zoo):
            print(line, flush=True)
            print(line, file=file, flush=True)  # what a crash leaves is worth sending, too
            is_right = is_right and is_fine
    print(f"wrote {options.output}; please attach it to an issue", file=sys.stderr)
    return 0 if is_right else 1


def report(
    device: str, model: str, requests: dict[str, list[list[Any]]], zoo: Sequence[str]
) -> Iterator[tuple[str, bool]]:
    """The lines of the report, each with whether all is well."""
    for line in ("# Device report", "", *_environment(device), "", "## Architectures", "", *_ZOO_HEAD):
        yield line, True
    for name in zoo:
        finding = _check_on(device, name)
        yield _zoo_line(finding), finding.is_right and not finding.problem
    for line in ("", f"## {Path(model).name}: {device} against cpu, in float32", "", *_PARITY_HEAD):
        yield line, True
    answers = {kind: SIDES["multiform"](model, "cpu")[1](asked) for kind, asked in requests.items()}
    _, answer = SIDES["multiform"](model, device)
    for kind, asked in requests.items():
        yield _parity_line(kind, answers[kind], answer(asked))
    for line in ("", f"## Seconds on {device}, in float32", "", *_TIME_HEAD):
        yield line, True
    _, theirs = SIDES["lm-eval"](model, device) if importlib.util.find_spec("lm_eval") else (None, None)
    for kind, asked in requests.items():
        ours, peer = _seconds(answer, asked), _seconds(theirs, asked) if theirs else None
        ratio = f"{peer:.2f} | {peer / ours:.1f}" if peer else "not installed |"
        yield f"| {kind} | {len(asked)} | {ours:.2f} | {ratio} |", True


def _environment(device: str) -> Iterator[str]:
    for name in ("multiform", "torch", "transformers"):
        yield f"* {name} {version(name)}"
    yield f"* Python {platform.python_version()} on {platform.platform()}"
    yield f"* device: {device}"
    if device.startswith("cuda"):
        properties = torch.cuda.get_device_properties(device)
        yield f"* {properties.name}, {properties.total_memory / 1e9:.0f} GB"
        yield f"* CUDA {torch.version.cuda}, HIP {torch.version.hip}"


def _check_on(device: str, name: str) -> Finding:
    with contextlib.redirect_stdout(io.StringIO()):  # some models print
        try:
            return check(name, zoo_model(name).to(device))
        except Exception as error:  # noqa: BLE001 - whatever a device does not support is a finding
            return Finding(name=name, problem=" ".join(f"{type(error).__name__}: {error}".split())[:200])


def _zoo_line(finding: Finding) -> str:
    if finding.problem:
        return f"| {finding.name} | {finding.problem} | | | no |"
    word = "yes" if finding.is_right else f"no: {finding.wrong_flags} flags, {finding.wrong_texts} texts"
    return f"| {finding.name} | {finding.scoring} | {finding.decoding} | {finding.difference:.0e} | {word} |"


def _parity_line(kind: str, expected: list[Any], actual: list[Any]) -> tuple[str, bool]:
    """A line about responses of two devices; equally likely tokens may make texts differ, which is no error alone."""
    if isinstance(expected[0], str):
        equal = sum(map(str.__eq__, expected, actual))
        return f"| {kind} | {len(expected)} | | {equal} |", True
    differences = [abs(ours[0] - theirs[0]) for ours, theirs in zip(actual, expected, strict=True)]
    equal = sum(ours[1] == theirs[1] for ours, theirs in zip(actual, expected, strict=True))
    is_fine = all(
        difference <= TOLERANCE * max(1.0, abs(theirs[0]))
        for difference, theirs in zip(differences, expected, strict=True)
    )
    return f"| {kind} | {len(expected)} | {max(differences):.0e} | {equal} |", is_fine


def _seconds(answer: Any, asked: list[list[Any]]) -> float:
    """The shorter of two times: the first finds kernels and memory."""
    times = []
    for _ in range(2):
        started = time.perf_counter()
        answer(asked)  # which waits for the device: the responses are on the host
        times.append(time.perf_counter() - started)
    return min(times)


def quiz_requests(task: str, docs: int) -> list[list[Any]]:
    """The distinct requests of the bundled quiz, with few-shot examples."""
    from multiform.forms import Task
    from multiform.tasks.manager import TaskManager

    (config,) = TaskManager().load(task)
    form = Task.from_config(config)
    form.set_num_fewshot(SHOTS)
    requests: dict[str, list[Any]] = {}
    for instance in form.build_all_requests(limit=docs):
        context, asked = plain_request(instance.request)
        asked = {**asked, "max_gen_toks": 32} if isinstance(asked, dict) else asked
        requests[repr([context, asked])] = [context, asked]
    return list(requests.values())


def _bundled() -> str:
    from multiform.models.hf.model import bundled_folder

    return str(bundled_folder())


if __name__ == "__main__":
    sys.exit(main())
