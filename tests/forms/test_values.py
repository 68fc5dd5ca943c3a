"""A run changes nothing that it is given, evaluates each field of a document once and parses each file once."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from multiform import Task, TaskConfig, evaluate
from multiform.fields import Doc
from multiform.formats import compile as format_compiler
from multiform.models.dummy import DummyModel
from multiform.prompts.template import render
from multiform.tasks import yaml

DOCS = [{"q": f"{n} + 1?", "options": [str(n), str(n + 1)], "key": "B"} for n in range(4)]


def config_of(**keys: Any) -> TaskConfig:
    fields: dict[str, Any] = {
        "task": "sums",
        "doc_to_text": "q",
        "doc_to_choice": "options",
        "doc_to_target": "key",
        "test_split": "test",
        "fewshot_split": "shots",
        "custom_dataset": lambda **_: {"test": DOCS, "shots": DOCS},
        "metadata": {"version": 1.0},
    }
    return TaskConfig(**{**fields, **keys})


def state(value: object) -> dict[str, object]:
    """What an object holds: the very same objects, and the items of its lists."""
    return {key: list(item) if isinstance(item, list) else item for key, item in vars(value).items()}


@pytest.mark.parametrize("format", ["mcqa", "generate"])
def test_two_runs_leave_a_configuration_a_task_and_a_model_as_they_are(format: str) -> None:
    config, model = config_of(formats=format), DummyModel()
    task = Task.from_config(config)
    before = copy.deepcopy(config.stated), config.to_dict(), state(task), task.dump_config(), state(model)
    runs: list[dict[str, Any]] = [
        {"num_fewshot": 2, "gen_kwargs": "max_gen_toks=3", "metadata": {"run": 1}, "limit": 2},
        {"num_fewshot": 1, "predict_only": True, "perturbation": "type=uppercase", "seeds": (1, 2, 3, 4)},
    ]
    for settings in runs:
        for given in (config, task):
            evaluate(model=model, tasks=[given], **settings)
    assert (config.stated, config.to_dict(), state(task), task.dump_config(), state(model)) == before


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="num_fewshot"):
        config_of().num_fewshot = 3  # type: ignore[misc]


@pytest.mark.parametrize("format", ["mcqa", "cloze", "hybrid", "generate", "cot", "bpb"])
def test_each_field_of_a_document_is_evaluated_once(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()

    def field(name: str):
        def read(doc: Doc) -> object:
            calls[name] += 1
            return doc[name]

        return read

    def counted(*args: Any) -> object:
        calls["template"] += 1
        return render(*args)

    monkeypatch.setattr(format_compiler, "render", counted)
    config = config_of(
        formats=format, doc_to_text=field("q"), doc_to_choice=field("options"), doc_to_target=field("key")
    )
    evaluate(model="dummy", tasks=[config], limit=1, use_cache=False)
    assert calls == {"q": 1, "key": 1, "options": 1, "template": 1}


#: Identities key caches and tell the forms of old results files: what changes them on purpose changes them here.
IDENTITIES = {
    "6f11042d": {"output_type": "multiple_choice"},
    "ae877423": {"formats": "mcqa"},
    "2f834283": {"formats": "cloze"},
    "3b43d5c4": {"formats": "generate"},
    "43c3ceac": {"formats": "bpb"},
    "263bc093": {"template": "mcq"},
    "bf50c653": {"task": "facts@cot"},
}


@pytest.mark.parametrize("identity", IDENTITIES)
def test_the_identity_of_a_form_stays_the_same_from_version_to_version(identity: str) -> None:
    columns = {"doc_to_text": "question", "doc_to_choice": "choices", "doc_to_target": "answer"}
    config = {"task": "facts", "dataset_path": "facts.jsonl", "test_split": "test", **columns, **IDENTITIES[identity]}
    assert Task.from_config(config).form.identity() == identity


def test_each_file_of_a_run_is_parsed_once(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"q": "1 + 1?", "options": ["1", "2"], "key": 1}\n')
    (tmp_path / "common.yaml").write_text("dataset_path: rows.jsonl\ntest_split: test\ndoc_to_text: q\n")
    (tmp_path / "sums.yaml").write_text(
        "include: common.yaml\ntask: sums\ndoc_to_choice: options\ndoc_to_target: key\n"
    )
    yaml._parse.cache_clear()
    evaluate(model="dummy", tasks=f"{tmp_path / 'sums.yaml'}@all", use_cache=False)
    assert yaml._parse.cache_info().misses == 2
