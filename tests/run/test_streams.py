"""Runs in many small chunks, with samples on disk and with kills in between, give what a run in one chunk gives."""

from __future__ import annotations

import json
import pickle
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from multiform import DataError, LLOutput, LoglikelihoodRequest, Task, TaskConfig, evaluate
from multiform.fields import Doc
from multiform.models.dummy import DummyModel
from multiform.models.model import Usage
from multiform.requests import Request, Response
from multiform.run import documents, spool
from multiform.run.store import Store

#: Keys of results files that differ between any two runs.
CHANGING = ("date", "date_iso", "total_evaluation_time_seconds", "start_time", "end_time")

ROWS = [
    {
        "question": f"What is {number} plus {number}?",
        "choices": [str(2 * number), str(number), str(number + 7)],
        "answer": 0 if number % 3 else 1,
        "passage": f"p{number % 7}",
        "text": f"A text about the number {number}, " * (1 + number % 3),
    }
    for number in range(40)
]
HEAD = "dataset_path: rows.jsonl\ntest_split: train\n"
CHOICES = "doc_to_text: question\ndoc_to_choice: choices\ndoc_to_target: answer\n"
TASKS = {
    "ranked": CHOICES + "output_type: multiple_choice\n",
    "information": CHOICES + "output_type: multiple_choice\nmetric_list: [{metric: acc_mutual_info}, {metric: acc}]\n",
    "clusters": CHOICES + "metadata: {cluster: passage}\n",
    "shots": CHOICES + "num_fewshot: 3\nfewshot_split: train\n",
    "first_shots": CHOICES + "num_fewshot: 2\nfewshot_split: train\nfewshot_config: {sampler: first_n}\n",
    "written": "output_type: generate_until\ndoc_to_text: question\ndoc_to_target: '{{choices[answer]}}'\n"
    "generation_kwargs: {until: ['.']}\nmetric_list:\n  - metric: exact_match\n  - metric: bleu\n",
    "repeated": "output_type: generate_until\nrepeats: 3\ndoc_to_text: question\ndoc_to_target: '{{choices[answer]}}'\n"
    "generation_kwargs: {until: ['.'], do_sample: true, temperature: 0.7}\n"
    "filter_list:\n  - name: first\n    filter: [{function: take_first}]\n"
    "  - name: most\n    filter: [{function: majority_vote}, {function: take_first}]\n"
    "metric_list:\n  - metric: exact_match\n",
    "rolling": "output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: text\n"
    "metric_list:\n  - metric: word_perplexity\n  - metric: bits_per_byte\n",
    "continued": "output_type: loglikelihood\ndoc_to_text: question\ndoc_to_target: '{{choices[0]}}'\n"
    "metric_list:\n  - metric: perplexity\n  - metric: acc\n",
    "classes": CHOICES
    + "output_type: multiple_choice\nmetric_list: [{metric: f1}, {metric: mcc}, {metric: brier_score}]\n",
    "described": CHOICES + "description: 'Do the sum in \"{{passage}}\". '\nnum_fewshot: 1\nfewshot_split: train\n",
    "balanced": CHOICES + "num_fewshot: 2\nfewshot_split: train\nfewshot_config: {sampler: balanced}\n",
    "noisy": CHOICES + "perturbation: {type: permute, probability: 0.3, seed: 7}\n",
    "styled": CHOICES,
    "thinking": CHOICES,
    "processed": CHOICES + "output_type: multiple_choice\nprocess_docs: !function code.larger\n",
    "drawn": CHOICES + "draw_docs: {number: 30, seed: 5}\n",
    "talk": "output_type: generate_until\ndoc_to_text: question\ndoc_to_turns: ['And once more?', '{{text}}']\n"
    "doc_to_target: '{{choices[answer]}}'\ngeneration_kwargs: {until: ['.']}\nmetric_list: [{metric: exact_match}]\n",
    "filtered": "output_type: generate_until\ndoc_to_text: question\ndoc_to_target: '{{choices[answer]}}'\n"
    "filter_list:\n  - name: number\n    filter: [{function: regex, regex_pattern: '(\\d+)'}, {function: take_first}]\n"
    "metric_list: [{metric: exact_match}, {metric: token_f1}]\n",
    "coded": "output_type: generate_until\ndoc_to_text: question\ndoc_to_target: '{{choices[answer]}}'\n"
    "process_results: !function code.length\n"
    "metric_list: [{metric: length, aggregation: mean, higher_is_better: true}]\n",
}
CODE = """
def larger(docs):
    return [dict(doc, question="Say: " + doc["question"]) for doc in docs if doc["answer"] == 0]


def length(doc, results):
    return {"length": float(len(results[0]))}
"""
#: What is run, 20 tasks: all output types, several forms, groups, clusters, shots that are drawn and that are not,
#: orders, noise, thoughts, conversations, filters, and code of tasks.
RUN = [
    *("ranked", "information", "clusters@mcqa+cloze", "shots@mcqa+cloze+generate+cot", "first_shots@mcqa+mcqa~3"),
    *("written", "repeated", "rolling", "continued", "pair@mcqa", "classes", "described@mcqa", "balanced@hybrid"),
    *("noisy@mcqa[order=shuffle:3]", "styled@MCStyle+BPBStyle", "thinking@think+mcq_cot", "processed"),
    *("drawn@bpb+open", "talk", "filtered", "coded"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (folder / "code.py").write_text(CODE)
    for name, text in TASKS.items():
        (folder / f"{name}.yaml").write_text(f"task: {name}\n{HEAD}{text}")
    group = "group: pair\ntask: [ranked, first_shots]\naggregate_metric_list: [{metric: acc, weight_by_size: true}]\n"
    (folder / "pair.yaml").write_text(group)
    return folder


class Dying(DummyModel):
    """The dummy model, which asks for a stop after so many responses: -1 for never."""

    stored = True
    left = -1

    def __init__(self, left: int = -1, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.left = left
        self.asked: list[LoglikelihoodRequest] = []

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        for response in super().loglikelihood(requests):
            self.asked.append(requests[response[0]])
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            yield response


def contents(folder: Path) -> dict[str, Any]:
    """The files of a finished run, by what their names begin with."""
    files: dict[str, Any] = {}
    for path in sorted(folder.rglob("*.json*")):
        name = path.name.rpartition("_")[0]
        assert name not in files
        files[name] = path.read_text()
    results = json.loads(files["results"])
    results["usage"].pop("model_loading_seconds")
    return files | {"results": json.dumps({k: v for k, v in results.items() if k not in CHANGING})}


def run(folder: Path, out: Path, **options: Any) -> Any:
    options = {"model": "dummy", "tasks": RUN, "use_cache": False, "bootstrap_iters": 100, **options}
    return evaluate(include_path=folder, output_path=out, log_samples=True, **options)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of about 40 requests, and hardly any sample in memory."""
    monkeypatch.setattr(documents, "CHUNK_REQUESTS", 40)
    monkeypatch.setattr(documents, "FEW_DOCUMENTS", 0)
    monkeypatch.setattr(spool, "IN_MEMORY", 20_000)
    monkeypatch.setattr(documents, "IN_MEMORY", 20_000)
    monkeypatch.setattr(spool, "BLOCK", 8)


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The files of a run of all tasks in one chunk."""
    out = tmp_path_factory.mktemp("whole")
    run(folder, out)
    return contents(out)


@pytest.mark.usefixtures("small_chunks")
def test_a_run_in_chunks_writes_the_bytes_of_a_run_in_one(folder: Path, whole: dict[str, Any], tmp_path: Path) -> None:
    results = run(folder, tmp_path)
    assert contents(tmp_path) == whole
    assert isinstance(next(form for form in results.forms if form.task == "shots").samples, spool.SpooledSamples)


@pytest.mark.long
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("kills", [[1], [30, 70, 5], [200, 1, 1]])
def test_a_run_that_is_killed_again_and_again_writes_them_as_well(
    folder: Path, whole: dict[str, Any], tmp_path: Path, kills: list[int]
) -> None:
    store, asked = tmp_path / "answers.db", []
    for left in kills:
        model = Dying(left)
        with pytest.raises(KeyboardInterrupt):
            run(folder, tmp_path / "out", model=model, use_cache=store)
        asked += model.asked[:-1]
    model = Dying()
    run(folder, tmp_path / "out", model=model, use_cache=store)
    asked += model.asked
    assert len(asked) == len(set(asked))
    files = {
        name: text.replace('"CUSTOM"', '"dummy"') if name == "results" else text
        for name, text in contents(tmp_path / "out").items()
    }
    for name, text in whole.items():
        if name != "results":
            assert files[name] == text
    mine, theirs = json.loads(files["results"]), json.loads(whole["results"])
    for key in ("results", "groups", "configs", "n-samples", "task_hashes", "intervals", "forms", "across_forms"):
        assert mine[key] == theirs[key], key


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("rule", [{"until_ci": 0.12}, {"budget": 150}])
def test_runs_that_stop_early_are_the_same_in_chunks(
    folder: Path, tmp_path: Path, rule: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(folder, tmp_path / "chunks", tasks="shots@mcqa+cloze+generate", **rule)
    monkeypatch.undo()
    run(folder, tmp_path / "whole", tasks="shots@mcqa+cloze+generate", **rule)
    assert contents(tmp_path / "chunks") == contents(tmp_path / "whole")


@pytest.mark.usefixtures("small_chunks")
def test_samples_on_disk_are_those_in_memory(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spooled = run(folder, tmp_path / "chunks")
    monkeypatch.undo()
    held = run(folder, tmp_path / "whole")
    assert spooled.samples() == held.samples()
    for mine, theirs in zip(spooled.forms, held.forms, strict=True):
        assert mine.samples == theirs.samples
        assert pickle.loads(pickle.dumps(mine.samples)) == theirs.samples
        assert [type(value) for sample in mine.samples for value in sample.values.values()] == [
            type(value) for sample in theirs.samples for value in sample.values.values()
        ]
        assert mine.samples[-1].sample == theirs.samples[-1].sample
        assert (mine.n, mine.ties, mine.endings) == (theirs.n, theirs.ties, theirs.endings)
    assert repr(spooled.table()) == repr(held.table())


class Slow(Dying):
    """Takes a moment for each response, in which documents are checked ahead."""

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        for response in super().loglikelihood(requests):
            time.sleep(0.004)
            yield response


@pytest.mark.usefixtures("small_chunks")
def test_a_mistake_in_the_last_document_ends_a_run_early_and_everything_is_stored(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**ROWS[0], "question": f"What is {number} plus 0?"} for number in range(400)]
    rows.append({**ROWS[0], "choices": "none"})
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "wrong.yaml").write_text(f"task: wrong\n{HEAD}{CHOICES}output_type: multiple_choice\n")
    monkeypatch.setattr(documents, "_AHEAD_SHARE", 1.0)
    model, store = Slow(), Store(tmp_path / "answers.db")
    with pytest.raises(DataError, match="doc 400"):
        evaluate(model=model, tasks=str(tmp_path / "wrong.yaml"), use_cache=store.path)
    assert 0 < len(model.asked) < 400, "documents are not checked before their turn"
    assert len(store.known(model.identity, model.asked)) == len(set(model.asked))


@pytest.mark.long
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_findings_are_the_same_whatever_is_checked_ahead(
    folder: Path, share: float, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(documents, "_AHEAD_SHARE", share)
    monkeypatch.setattr(documents, "_SIDE_BY_SIDE", 3)
    evaluate(model=Slow(), tasks=["ranked", "clusters@mcqa+cloze"], include_path=folder, use_cache=False)
    [warning] = [each for each in caplog.messages if "duplicate_choices" in each]
    assert "twice: 2 (doc 0: " in warning
    assert warning.endswith("so for 1 more: clusters")


@pytest.mark.usefixtures("small_chunks")
def test_a_mistake_in_any_of_the_first_documents_is_found_before_the_model_runs(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "right.yaml").write_text(f"task: right\n{HEAD}{CHOICES}output_type: multiple_choice\n")
    (tmp_path / "wrong.yaml").write_text(f"task: wrong\n{HEAD}{CHOICES}formats: mcqa\n".replace("question", "qestion"))
    model = Dying()
    with pytest.raises(DataError, match="question"):
        evaluate(model=model, tasks=[str(tmp_path / "right.yaml"), str(tmp_path / "wrong.yaml")])
    assert not model.asked


def test_a_small_run_is_one_chunk(folder: Path) -> None:
    """So that its requests are planned together, and every mistake shows before the model is loaded."""
    asked: list[int] = []

    class Watched(DummyModel):
        def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
            asked.append(len(requests))
            return super().loglikelihood(requests)

    evaluate(model=Watched(), tasks=["quiz@mcqa+cloze", "ranked"], include_path=folder)
    assert len(asked) == 1


class Drawing(Task):
    """Draws from generators of its own and of the process."""

    def __init__(self, config: TaskConfig) -> None:
        super().__init__(config)
        self.rnd, self.of_numpy = random.Random(3), np.random.default_rng(3)

    def doc_to_text(self, doc: Doc, doc_to_text: Any = None) -> str:
        return f"{doc['question']} {self.rnd.random()} {self.of_numpy.random()} {random.random()}"


class DrawingModel(Slow):
    """Draws from the generator of the process as well."""

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        random.random()
        return super().loglikelihood(requests)


def prompts_of_drawing_task(folder: Path) -> list[str]:
    config: dict[str, Any] = {"task": "drawing", "dataset_path": str(folder / "rows.jsonl"), "test_split": "train"}
    config |= {"doc_to_text": "question", "doc_to_choice": "choices", "doc_to_target": "answer"}
    task = Drawing(TaskConfig(**config, output_type="multiple_choice"))
    return [sample.sample.prompt for sample in evaluate(model=DrawingModel(), tasks=task).forms[0].samples]


@pytest.mark.usefixtures("small_chunks")
def test_what_a_task_draws_is_the_same_in_chunks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_chunks = prompts_of_drawing_task(folder)
    monkeypatch.undo()
    assert in_chunks == prompts_of_drawing_task(folder)


@pytest.mark.usefixtures("small_chunks")
def test_requests_of_several_chunks_are_counted_once(folder: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"include_path": folder, "tasks": ["ranked", "information"]}
    options |= {"model": Dying(), "use_cache": tmp_path / "answers.db"}
    plan = evaluate(**options, plan_only=True).run["plan"].splitlines()
    first, second = (evaluate(**options).provenance["usage"] for _ in range(2))
    number = len(set(options["model"].asked))
    assert plan[0] == f"{number} distinct requests for {2 * len(ROWS)} documents; 0 of them are cached"
    assert (first["requests"], first["requests_cached"]) == (number, 0)
    assert (second["requests"], second["requests_cached"]) == (number, number)


class Counting(DummyModel):
    """Counts the tokens of requests, and those that a prompt shares with others."""

    def workload(self, requests: Sequence[Request]) -> Usage:
        return Usage(prefill=2 * len(requests), unshared=3 * len(requests))


@pytest.mark.usefixtures("small_chunks")
def test_a_plan_of_several_chunks_has_their_total(folder: Path) -> None:
    plan = evaluate(model=Counting(), tasks="ranked", include_path=folder, plan_only=True).run["plan"].splitlines()
    number = int(plan[0].split()[0])
    assert number > 100
    words = (
        f"{2 * number} prompt tokens to compute for {3 * number} (1.5 times less, as prompts share their beginnings)"
    )
    assert plan[1:] == [words]
