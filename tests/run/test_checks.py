"""What `evaluate` refuses before it reads a dataset or loads a model."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy
import pytest

from multiform import TaskConfig, evaluate
from multiform.errors import UsageError

#: A task whose dataset is not there: to read it is an error.
UNREAD = {"task": "t", "dataset_path": "missing.jsonl", "test_split": "test", "doc_to_text": "q", "doc_to_target": "a"}


@pytest.mark.parametrize(
    ("argument", "value", "expected"),
    [
        ("num_fewshot", "5", "num_fewshot: expected a whole number of 0 or more, got '5'; give e.g. num_fewshot=5"),
        ("num_fewshot", -1, "num_fewshot: expected a whole number"),
        ("num_fewshot", True, "num_fewshot: expected a whole number"),
        ("limit", "10", "limit: expected a whole number of 1 or more, or a fraction below 1, got '10'"),
        ("batch_size", "many", "batch_size: expected a whole number of 1 or more, or 'auto', got 'many'"),
        ("batch_size", 0, "batch_size: expected a whole number of 1 or more"),
        ("bootstrap_iters", 1.5, "bootstrap_iters: expected a whole number"),
        ("samples", [0, 1], "samples: expected a list of indexes for each task"),
        ("samples", {"t": ["0"]}, "samples: expected a list of indexes for each task"),
        ("seeds", 7, "seeds: expected the seeds of python, numpy, torch and the few-shot sampler"),
        ("device", 0, "device: expected text, got 0"),
        ("system_instruction", ["Be brief."], "system_instruction: expected text"),
        ("fewshot_as_multiturn", "false", "fewshot_as_multiturn: expected true or false, got 'false'"),
        ("predict_only", "no", "predict_only: expected True or False"),
        ("apply_chat_template", 1, "apply_chat_template: expected True, False or a name"),
        ("use_cache", 3, "use_cache: expected True, False or the name of a file"),
        ("output_path", 3, "output_path: expected the name of a folder"),
        ("output_path", "", "output_path: the name of the folder is empty"),
        ("log_samples", True, "log_samples: there is no output_path to write samples to"),
        ("gen_kwargs", {"max_gen_toks": "many"}, "--gen_kwargs: max_gen_toks is 'many'"),
        ("gen_kwargs", {"max_tokens": 4, "max_gen_toks": 8}, "--gen_kwargs: max_gen_toks and max_tokens mean the same"),
    ],
)
def test_a_value_of_another_type_is_refused(argument: str, value: Any, expected: str) -> None:
    with pytest.raises(UsageError) as refused:
        evaluate(model="dummy", tasks=[TaskConfig.from_dict(UNREAD)], **{argument: value})
    assert str(refused.value).startswith(expected)


def test_numbers_of_numpy_and_sizes_as_text_are_taken() -> None:
    shots: Any = numpy.int64(1)
    results = evaluate(model="dummy", tasks="quiz@mcqa", num_fewshot=shots, limit=numpy.float64(4), batch_size="auto:4")
    assert results["quiz@mcqa"]["sample_len"] == 4


def test_a_task_by_itself_will_do() -> None:
    rows = [{"q": "Who?", "a": "I"}]
    config = TaskConfig.from_dict({**UNREAD, "dataset_path": None, "custom_dataset": lambda **_: {"test": rows}})
    assert list(evaluate(model="dummy", tasks=config)) == ["t"]


def test_an_argument_of_generation_that_the_model_does_not_take_is_refused_before_it_is_loaded(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with pytest.raises(UsageError, match=r"--gen_kwargs: unknown generation argument 'tempreature'; did you mean"):
        evaluate(model="hf", model_args={"pretrained": str(tmp_path)}, tasks="quiz@cot", gen_kwargs="tempreature=1")


def test_the_same_of_a_task_names_its_file(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "t.yaml"
    file.write_text("task: t\ndataset_path: missing.jsonl\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\n")
    file.write_text(file.read_text() + "generation_kwargs: {num_beans: 4}\n")
    with pytest.raises(UsageError, match=r"t.yaml:6: generation_kwargs: unknown generation argument 'num_beans'"):
        evaluate(model="hf", model_args={"pretrained": str(tmp_path)}, tasks=str(file))


@pytest.mark.parametrize(
    ("task", "gen_kwargs", "expected"),
    [
        ("quiz@mcqa", "max_gen_toks=4", "--gen_kwargs changes nothing: no task of this run generates text"),
        ("quiz@cot", "temperature=0.8", "--gen_kwargs temperature changes nothing where do_sample is false"),
    ],
)
def test_arguments_of_generation_without_effect_are_said(
    task: str, gen_kwargs: str, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "multiform")
    evaluate(model="dummy", tasks=task, limit=1, gen_kwargs=gen_kwargs)
    assert [record.getMessage()[: len(expected)] for record in caplog.records] == [expected]


def test_results_are_written_where_they_are_wanted(tmp_path: Path) -> None:
    evaluate(model="dummy", tasks="quiz@mcqa", limit=2, output_path=tmp_path / "out", log_samples=True)
    assert [path.suffix for path in sorted((tmp_path / "out" / "dummy").iterdir())] == [".json", ".jsonl"]


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="a file is in the way"):
        evaluate(model="dummy", tasks=[TaskConfig.from_dict(UNREAD)], output_path=tmp_path / "file" / "out")


def test_the_mirror_that_the_environment_names_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "org" / "facts" / "default"
    folder.mkdir(parents=True)
    (folder / "test.jsonl").write_text('{"q": "Who?", "a": "I"}\n')
    monkeypatch.setenv("MULTIFORM_DATASET_MIRROR", str(tmp_path))
    config = TaskConfig.from_dict({**UNREAD, "dataset_path": "org/facts"})
    assert evaluate(model="dummy", tasks=config)["t"]["sample_len"] == 1
