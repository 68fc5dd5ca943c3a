"""Tasks of lm-eval that are Python classes (`class: !function ...`) run in Multiform."""

from __future__ import annotations

import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from multiform import ConfigError, DataError, Task, TaskManager, evaluate
from multiform.imports import lm_eval_finder as finder
from multiform.requests import GenerationRequest, Instance, LoglikelihoodRequest

from .conftest import needs_lm_eval


@pytest.fixture(scope="module")
def tasks() -> Path:
    folder = finder.real_folder()
    if folder is None:
        pytest.skip("lm-eval, whose task files these are, is not installed: pip install lm-eval==0.4.13")
    return folder / "tasks"


@pytest.fixture
def squad(mirror: Path, tmp_path: Path) -> Path:
    """The rows of SQuAD 2 under the name that the task has for them, the last ones as its training split."""
    folder = tmp_path / "lighteval" / "squad_v2" / "default"
    folder.mkdir(parents=True)
    lines = (mirror / "rajpurkar/squad_v2/squad_v2/validation.jsonl").read_text(encoding="utf-8").split("\n")
    (folder / "validation.jsonl").write_text("\n".join(lines[:60]), encoding="utf-8")
    (folder / "train.jsonl").write_text("\n".join(lines[60:90]), encoding="utf-8")
    return tmp_path


def asked(instances: list[Instance]) -> list[tuple[object, ...]]:
    made: list[tuple[object, ...]] = []
    for instance in instances:
        request = instance.request
        assert isinstance(request, GenerationRequest | LoglikelihoodRequest)
        more = request.gen_kwargs if isinstance(request, GenerationRequest) else request.continuation
        made.append((request.context, more))
    return made


@needs_lm_eval
@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_squadv2_asks_what_it_asks_in_lm_eval(tasks, squad):
    from tests.parity.reference import load_tasks, requests

    theirs = load_tasks(["squadv2"], squad, [tasks / "squadv2"])["squadv2"]
    (config,) = TaskManager(tasks / "squadv2").load("squadv2")
    ours = Task.from_config(config, dataset_mirror=squad)
    assert asked(ours.build_all_requests(limit=20)) == requests(theirs, shots=0, limit=20)


def test_squadv2_takes_examples_from_its_own_training_documents(tasks, squad):
    (config,) = TaskManager(tasks / "squadv2").load("squadv2")
    task = Task.from_config(config, dataset_mirror=squad)
    task.set_num_fewshot(2)
    request: Any = task.build_all_requests(limit=1)[0].request
    prompt = request.context
    train = [json.loads(line) for line in (squad / "lighteval/squad_v2/default/train.jsonl").read_text().splitlines()]
    assert sum(row["question"] in prompt for row in train) == 2


def test_squadv2_answers_are_kept_and_a_metric_of_the_hub_is_an_error_that_says_so(tasks, squad, monkeypatch):
    monkeypatch.setitem(sys.modules, "evaluate", None)  # as where it is not installed
    run = {"tasks": "squadv2", "include_path": tasks / "squadv2", "model": "dummy", "dataset_mirror": squad, "limit": 3}
    with pytest.raises(DataError, match=r"'_squad_agg' failed: .*evaluate.*install what it imports.*predict_only"):
        evaluate(**run)
    kept = evaluate(**run, predict_only=True)
    assert [len(sample.outputs) for sample in kept.forms[0].samples] == [2, 2, 2]


def test_squadv2_scores_with_a_metric_that_is_there(tasks, squad, monkeypatch):
    class Metric:
        def compute(self, predictions, references):
            assert [set(one) for one in predictions] == [{"id", "prediction_text", "no_answer_probability"}] * 3
            return {"exact": 50.0, "f1": sum(one["no_answer_probability"] for one in predictions)}

    module: Any = ModuleType("evaluate")
    module.load = lambda name: Metric()
    monkeypatch.setitem(sys.modules, "evaluate", module)
    scores = evaluate(tasks="squadv2", include_path=tasks / "squadv2", model="dummy", dataset_mirror=squad, limit=3)[
        "squadv2"
    ]
    assert scores["exact,none"] == 50.0
    assert scores["exact_stderr,none"] == "N/A"
    assert 0 < scores["f1,none"] < 3
    assert scores["best_f1,none"] == 0


@pytest.mark.parametrize("name", ["fda", "swde", "squad_completion"])
def test_completion_tasks_score_by_their_own_code(tasks, tmp_path, name):
    path = {"fda": "based-fda", "swde": "based-swde-v2", "squad_completion": "based-squad"}[name]
    folder = tmp_path / "hazyresearch" / path / "default"
    folder.mkdir(parents=True)
    rows = [{"text": " The capital of France is ", "value": "Paris"}, {"text": "Two and two is", "value": " 5 "}]
    (folder / "validation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    results = evaluate(
        tasks=name,
        include_path=tasks / name,
        model="dummy",
        model_args={"text": " PARIS it is"},
        dataset_mirror=tmp_path,
    )
    assert results[name]["contains,none"] == 0.5
    sample = results.forms[0].samples[0]
    request: Any = sample.instances[0].request
    assert request.context == "The capital of France is"
    options = request.gen_kwargs
    assert options["max_gen_toks"] == {"fda": 48, "swde": 48, "squad_completion": 256}[name]


@pytest.fixture
def unitxt(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the task's code needs of the package, which is not installed here."""
    doc = {"source": "Is it news?", "target": "yes", "metrics": ["metrics.accuracy"], "references": ["yes"]}
    module: Any = ModuleType("unitxt")
    module.__version__ = "1.20.0"
    module.load_dataset = lambda recipe, use_cache, **kwargs: {"test": [{**doc, "recipe": recipe}] * 2}
    module.evaluate = lambda predictions, references: [{"score": {"global": {"score": len(predictions)}}}]
    module.__spec__ = ModuleSpec("unitxt", None)
    monkeypatch.setitem(sys.modules, "unitxt", module)


def test_unitxt_gets_the_keys_of_its_file_and_its_own_rows(tasks, unitxt):
    results = evaluate(tasks="20_newsgroups", include_path=tasks / "unitxt", model="dummy")
    assert results["20_newsgroups"]["accuracy,none"] == 2
    sample = results.forms[0].samples[0]
    assert sample.doc["recipe"].startswith("card=cards.20_newsgroups")
    assert sample.instances[0].request == GenerationRequest.of("Is it news?", {"until": ["\n"]})


def test_without_its_package_a_task_is_an_error_that_names_it(tasks):
    (config,) = TaskManager(tasks / "unitxt").load("20_newsgroups")
    with pytest.raises(DataError, match=r"unitxt.*download failed: .*pip install unitxt"):
        Task.from_config(config)


def test_all_python_tasks_of_the_wheel_are_found(tasks):
    folders = ["fda", "scrolls", "squad_completion", "squadv2", "swde", "unitxt"]
    index = TaskManager([tasks / name for name in folders]).index
    found = [name for name, entry in index.entries.items() if entry.folder.name in folders and entry.kind == "task"]
    assert len(found) == 30


CLASS = """\
import numpy as np
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask, Task

class Sums(ConfigurableTask):
    VERSION = 1

    def __init__(self, config=None):
        super().__init__(config={"metadata": {"version": self.VERSION}, "num_fewshot": config.get("num_fewshot")})

    def download(self, dataset_kwargs=None, **kwargs):
        self.dataset = {"train": [{"n": 7}, {"n": 8}], "test": [{"n": 1}, {"n": 2}, {"n": 3}]}

    def has_training_docs(self): return True
    def has_validation_docs(self): return False
    def has_test_docs(self): return True
    def training_docs(self): return self.dataset["train"]
    def test_docs(self): return self.dataset["test"]
    def doc_to_text(self, doc): return f"{doc['n']} and {doc['n']} is"
    def doc_to_target(self, doc): return str(2 * doc["n"])

    def construct_requests(self, doc, ctx, **kwargs):
        kwargs.pop("apply_chat_template"), kwargs.pop("chat_template")
        return Instance("loglikelihood_rolling", doc, (ctx,), 0, **kwargs)

    def process_results(self, doc, results):
        (value,) = results
        return {"likelihood": value, "listed": [doc["n"], value < 0]}

    def aggregation(self):
        return {"likelihood": mean, "listed": lambda items: sum(n for n, below in items if below)}

    def higher_is_better(self):
        return {"likelihood": True, "listed": True}
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "sums.py").write_text(CLASS)
    (tmp_path / "sums.yaml").write_text("task: sums\nclass: !function sums.Sums\nnum_fewshot: 1\n")
    return tmp_path


def test_a_class_of_ones_own_decides_all_of_it(own):
    results = evaluate(tasks="sums", include_path=own, model="dummy")
    scores = results["sums"]
    assert scores["sample_len"] == 3
    assert scores["listed,none"] == 6
    assert scores["likelihood_stderr,none"] > 0
    assert scores["listed_stderr,none"] == "N/A"
    text = results.forms[0].samples[0].sample.prompt
    assert text in ("7 and 7 is 14\n\n1 and 1 is", "8 and 8 is 16\n\n1 and 1 is")


def test_requests_of_code_are_made_anew_and_score_the_same(own, monkeypatch, tmp_path):
    monkeypatch.setenv("MULTIFORM_CACHE", str(tmp_path / "cache"))
    run = {"tasks": "sums", "include_path": own, "model": "dummy", "cache_requests": True}
    first = evaluate(**run)["sums"]
    assert not list((tmp_path / "cache").rglob("requests-*"))
    assert evaluate(**run)["sums"] == first


def test_no_format_or_noise_is_taken_and_then_ignored(own):
    with pytest.raises(ConfigError, match="Sums writes its prompts itself, so no format can change them"):
        evaluate(tasks="sums@cot", include_path=own, model="dummy")
    with pytest.raises(ConfigError, match="no perturbation can change them"):
        evaluate(tasks="sums", include_path=own, model="dummy", perturbation={"type": "editor", "probability": 0.5})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("return Instance(", "return str("), r"sums.*doc 0: construct_requests failed: TypeError"),
        (("loglikelihood_rolling", "telepathy"), r"doc 0: a request of type 'telepathy'; there are loglikelihood"),
        (("doc, (ctx,), 0", "doc, (), 0"), r"doc 0: an instance of loglikelihood_rolling has 0 arguments"),
        (("(value,) = results", "(value, more) = results"), r"process_results failed: ValueError"),
        (("def download", "def no_download"), r"test_docs failed|no dataset"),
        (("super().__init__(", "super().__init__(1, 2, 3, 4, "), r"sums.yaml:2: class: Sums\(\) failed: TypeError"),
    ],
)
def test_what_its_code_does_wrong_is_an_error_with_a_place(own, change, message):
    (own / "sums.py").write_text(CLASS.replace(*change))
    with pytest.raises((ConfigError, DataError), match=message):
        evaluate(tasks="sums", include_path=own, model="dummy")
