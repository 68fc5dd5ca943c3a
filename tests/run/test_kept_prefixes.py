"""Few-shot examples stay in the KV cache from one chunk of a run to the next, and from one round to the next."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from multiform import Results, evaluate
from multiform.models.hf.model import HFModel
from multiform.models.torch.planner import Planner
from multiform.run import documents
from tests.tiny_models import llama_config, make_tokenizer, save_random

pytestmark = pytest.mark.long

TASK = """\
task: shots
dataset_path: rows.jsonl
test_split: train
fewshot_split: train
fewshot_config: {sampler: first_n}
num_fewshot: 5
doc_to_text: question
doc_to_choice: choices
doc_to_target: answer
"""
FORMS = "mcqa~10+cloze+hybrid+generate+cot"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept")
    with (folder / "rows.jsonl").open("w") as file:
        for number in range(150):
            question = f"What is the capital of the country with number {number}, and is it a good one?"
            choices = [f"Paris {number}", f"the cat {number + 1}", f"a dog {number + 2}"]
            file.write(json.dumps({"question": question, "choices": choices, "answer": number % 3}) + "\n")
    (folder / "shots.yaml").write_text(TASK)
    tokenizer = make_tokenizer(bos=False)
    save_random(folder / "model", llama_config(len(tokenizer), max_position_embeddings=4096), tokenizer)
    return folder


def run(folder: Path, **options: Any) -> Results:
    model = HFModel(str(folder / "model"), device="cpu")
    tasks = f"{folder}/shots.yaml@{FORMS}"
    options = {"use_cache": False, "gen_kwargs": {"max_gen_toks": 4}, **options}
    results: Results = evaluate(model=model, tasks=tasks, **options)
    assert not model.planner.kept_prefixes.entries(), "the memory of a run is released at its end"
    return results


@pytest.fixture(scope="module")
def whole(folder: Path) -> Results:
    return run(folder)


@pytest.fixture(scope="module")
def small_chunks() -> Iterator[None]:
    """Chunks of about 1,600 requests, where a run has some 5,500."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "CHUNK_REQUESTS", 1600)
        patch.setattr(documents, "FEW_DOCUMENTS", 0)
        yield


@pytest.fixture(scope="module")
def chunked(folder: Path, whole: Results, small_chunks: None) -> Results:
    return run(folder)


@pytest.fixture
def without_kept_prefixes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Planner, "keep_prefixes", lambda self, keep: None)


def tokens(results: Results) -> int:
    return int(results.provenance["usage"]["prompt_tokens_computed"])


def scores(results: Results) -> list[Any]:
    return [
        (sample.sample.doc_id, sample.values, sample.prediction) for form in results.forms for sample in form.samples
    ]


def test_chunks_compute_hardly_more_tokens_than_the_whole(chunked: Results, whole: Results) -> None:
    assert tokens(chunked) <= 1.02 * tokens(whole)
    assert scores(chunked) == scores(whole)


@pytest.mark.usefixtures("small_chunks", "without_kept_prefixes")
def test_otherwise_each_chunk_would_compute_them_again(folder: Path, chunked: Results) -> None:
    again = run(folder)
    assert tokens(again) > 1.05 * tokens(chunked)
    assert scores(again) == scores(chunked)


@pytest.mark.usefixtures("small_chunks")
def test_otherwise_each_round_would_compute_them_again(folder: Path, request: pytest.FixtureRequest) -> None:
    kept = run(folder, budget=800)
    request.getfixturevalue("without_kept_prefixes")
    again = run(folder, budget=800)
    assert tokens(again) > 1.05 * tokens(kept)
    assert scores(again) == scores(kept)
