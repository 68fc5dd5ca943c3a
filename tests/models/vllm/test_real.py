"""The real vLLM (CPU build, in an environment of its own) with the bundled model against `hf` in this process."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import multiform
from multiform import GenerationRequest, LoglikelihoodRequest, RollingRequest
from multiform.models.hf.model import HFModel, bundled_folder
from multiform.models.vllm.model import RESERVED

pytestmark = [pytest.mark.slow, pytest.mark.bundled]

ROOT = Path(__file__).parents[3]
#: How far log-likelihoods may be apart for each token: float32 sums in another order.
PER_TOKEN = 3e-5
MAX_LENGTH = 512
SHOTS = "Question: What colour is grass?\nAnswer: green\n\nQuestion: What is two plus two?\nAnswer: four\n\n"
QUESTIONS = [
    f"{SHOTS}Question: {text}\nAnswer:" for text in ("Which animal barks?", "Where is Paris?", "Who wrote Hamlet?")
]
TEXTS = (" the dog", " France, in the north of the country", " Shakespeare", " A", " B", " C", " D")
SCORED = [(question, text) for question in QUESTIONS for text in TEXTS] + [("", "The cat sat on the mat.")]
ROLLING = ["The cat sat on the mat, and the dog lay beside it. " * 60, "Hello"]
GENERATED: list[tuple[str, dict[str, Any]]] = [
    *((question, {"max_gen_toks": 24, "until": ["\n\n"]}) for question in QUESTIONS),
    (QUESTIONS[0], {"max_gen_toks": 24, "until": ["o"]}),
    (QUESTIONS[0], {"max_gen_toks": 16}),
]


def vllm_run(*argv: str, stdin: str = "") -> str:
    """What a program prints in the environment of vLLM."""
    python = os.environ.get("VLLM_PYTHON")
    if not python:
        pytest.skip("VLLM_PYTHON names no Python with vLLM: make test-vllm")
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }
    done = subprocess.run([python, *argv], input=stdin, capture_output=True, text=True, cwd=ROOT, env=variables)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def asked(**arguments: Any) -> dict[str, Any]:
    """The outputs of the model `vllm` with these arguments."""
    engine = {"pretrained": str(bundled_folder()), "max_model_len": MAX_LENGTH, "enforce_eager": True}
    requests = {"scored": SCORED, "rolling": ROLLING, "generated": GENERATED}
    job = {"arguments": {**engine, **arguments}, **requests}
    outputs: dict[str, Any] = json.loads(vllm_run("-m", "tests.models.vllm.ask", stdin=json.dumps(job)))
    return outputs


@pytest.fixture(scope="module")
def local() -> HFModel:
    return HFModel(str(bundled_folder()), dtype="float32", max_length=MAX_LENGTH - RESERVED)


@pytest.fixture(scope="module")
def forced() -> dict[str, Any]:
    return asked()


def assert_scores(outputs: list[Any], local: HFModel) -> None:
    expected = dict(local.loglikelihood([LoglikelihoodRequest(*pair) for pair in SCORED]))
    for position, (value, is_greedy, tokens) in enumerate(outputs):
        output = expected[position]
        assert tokens == output.tokens
        assert value == pytest.approx(output.loglikelihood, abs=PER_TOKEN * tokens)
        assert is_greedy == output.is_greedy, SCORED[position]


def test_log_likelihoods_by_forced_tokens_and_labels_are_those_of_hf(forced: dict[str, Any], local: HFModel) -> None:
    assert forced["info"]["vllm_scoring"] == "forced tokens, labels in one step"
    assert_scores(forced["scored"], local)


def test_the_prefix_cache_served_the_contexts(forced: dict[str, Any]) -> None:
    assert forced["computed"] < 0.7 * forced["unshared"]


def test_rolling_log_likelihoods_are_those_of_hf(forced: dict[str, Any], local: HFModel) -> None:
    expected = dict(local.loglikelihood_rolling([RollingRequest(text) for text in ROLLING]))
    for position, (value, tokens) in enumerate(forced["rolling"]):
        assert tokens == expected[position].tokens
        assert value == pytest.approx(expected[position].loglikelihood, abs=PER_TOKEN * tokens)


def test_greedy_texts_are_those_of_hf(forced: dict[str, Any], local: HFModel) -> None:
    expected = dict(local.generate([GenerationRequest.of(*each) for each in GENERATED]))
    assert forced["generated"] == [[expected[i].text, expected[i].truncated] for i in sorted(expected)]


def test_prompt_log_probabilities_give_the_same_scores(local: HFModel) -> None:
    outputs = asked(scoring="prompt_logprobs")
    assert outputs["info"]["vllm_scoring"] == "prompt log-probabilities"
    assert_scores(outputs["scored"], local)


def test_a_run_picks_what_hf_picks_and_prints_json_alone(tmp_path: Path) -> None:
    folder, tasks = str(bundled_folder()), "quiz@mcqa,quiz@cloze"
    arguments = f"pretrained={folder},max_model_len=1024,enforce_eager=True"
    options = ["--tasks", tasks, "--limit", "8", "--log_samples", "--output_path", str(tmp_path), "--json", "--fresh"]
    printed = json.loads(vllm_run("-m", "multiform", "run", "--model", "vllm", "--model_args", arguments, *options))
    theirs = multiform.evaluate(
        model="hf",
        model_args={"pretrained": folder, "dtype": "float32"},
        tasks=tasks.split(","),
        limit=8,
        use_cache=False,
    )
    for name in tasks.split(","):
        assert printed["results"][name]["acc,none"] == pytest.approx(theirs[name]["acc,none"])
        picks = {row["doc_id"]: _pick(row) for path in tmp_path.rglob("samples_*") for row in _rows(path, name)}
        assert len(picks) == 8
        for row in theirs.samples(name):
            values = row["loglikelihoods"]
            if sorted(values)[-1] - sorted(values)[-2] > 1e-3:
                assert picks[row["doc_id"]] == values.index(max(values))


def _pick(row: dict[str, Any]) -> int:
    """The likeliest choice of a line of a samples file."""
    values = [float(response[0][0]) for response in row["resps"]]
    return values.index(max(values))


def _rows(path: Path, name: str) -> list[dict[str, Any]]:
    if name.replace("@", "_") not in path.name.replace("@", "_"):
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
