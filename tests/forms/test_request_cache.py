"""The request cache: prompts come back whole or are made anew, and it never ends a run."""

from __future__ import annotations

import json
import logging
import os
import sys

import pytest

from multiform import evaluate
from multiform.forms import Task
from multiform.forms.samplers import FirstNSampler, samplers
from multiform.models.dummy import DummyModel
from multiform.requests import GenerationRequest
from multiform.tasks.functions import load_module

ROWS = [{"q": f"Question {number}?", "a": "yes"} for number in range(5)]


@pytest.fixture
def task(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTIFORM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    fields = {"task": "t", "dataset_path": str(tmp_path / "rows.jsonl"), "test_split": "test"}
    return lambda **more: Task.from_config({**fields, "doc_to_text": "q", "doc_to_target": "a", **more})


def built(task):
    return task.build_all_requests(cache_requests=True)


DAMAGED = {
    "cut after a line": lambda text: text.partition("\n")[0],
    "cut within a line": lambda text: text[:-20],
    "empty": lambda text: "",
    "without its header": lambda text: text.partition("\n")[2],
    "another word": lambda text: text.replace("Question 3", "Question 7"),
    "a line twice": lambda text: text + text.splitlines()[-1] + "\n",
    "another key": lambda text: f"0{text}",
    "not JSON": lambda text: "{" * 5000,
    "not text": lambda text: "\x00\ud800",
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_file_is_made_anew_with_one_warning(damage, task, tmp_path, caplog):
    fresh = built(task())
    assert len(fresh) == 5
    [file] = (tmp_path / "cache" / "requests").iterdir()
    whole = file.read_text()
    file.write_bytes(damage(whole).encode("utf-8", "surrogatepass"))
    with caplog.at_level(logging.WARNING, "multiform"):
        assert built(task()) == fresh
    assert len(caplog.records) == 1
    assert file.read_text() == whole
    caplog.clear()
    assert built(task()) == fresh
    assert not caplog.records


@pytest.mark.parametrize("obstacle", ["file", "read-only"])
def test_a_folder_that_cannot_be_written_is_a_warning(obstacle, task, tmp_path, caplog):
    folder = tmp_path / "cache"
    if obstacle == "file":
        folder.write_text("in the way")
    else:
        folder.mkdir()
        folder.chmod(0o500)
        if os.access(folder, os.W_OK):
            pytest.skip("this user may write anywhere")
    with caplog.at_level(logging.WARNING, "multiform"):
        assert len(built(task())) == 5
    assert any("the prompts are not cached" in record.message for record in caplog.records)


NESTED = {
    "response_format": {"type": "json_schema", "json_schema": {"required": ["a", "b"], "strict": True}},
    "logit_bias": {"50256": -100},
    "chat_template_kwargs": {"enable_thinking": False},
}


def test_nested_arguments_of_generation_come_back_from_the_cache(task, tmp_path):
    fresh = built(task(generation_kwargs={"max_gen_toks": 4, **NESTED}))
    again = built(task(generation_kwargs={"max_gen_toks": 4, **NESTED}))
    assert fresh == again
    assert isinstance(again[0].request, GenerationRequest)
    assert {key: again[0].request.gen_kwargs[key] for key in NESTED} == NESTED


def test_a_run_takes_nested_arguments_of_generation(task):
    results = evaluate(model="dummy", tasks=[task()], gen_kwargs=NESTED, cache_requests=False)
    assert results["t"]["exact_match,none"] == 0
    sent = results.forms[0].samples[0]
    assert sent is not None


def test_arguments_that_differ_inside_make_different_requests():
    first, second = (GenerationRequest.of("q", {"logit_bias": {"1": bias}}) for bias in (1, 2))
    assert first != second
    assert len({first, second, GenerationRequest.of("q", {"logit_bias": {"1": 1}})}) == 2


CODE = """\
import os
from pathlib import Path
from helper import asked  # another module

def question(doc):
    return asked + os.environ.get("QUESTION_END", "") + (Path(__file__).parent / "more.txt").read_text()
"""
CHANGED = {
    "a module that it imports": lambda folder: (folder / "helper.py").write_text("asked = 'Another?'"),
    "a file that it reads": lambda folder: (folder / "more.txt").write_text(" More."),
    "a variable of the environment": lambda folder: os.environ.update(QUESTION_END="!"),
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED.keys())
def test_prompts_of_code_are_rendered_each_time_and_that_is_said(change, task, tmp_path, monkeypatch, caplog):
    """Nobody can track all that code reads, so that cached prompts could be old ones."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("QUESTION_END", "?")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    texts = {"utils.py": CODE, "helper.py": "asked = 'What'", "more.txt": ""}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)

    def first_prompt():
        for module in [name for name in sys.modules if name == "helper" or name.startswith("_multiform_task_utils")]:
            monkeypatch.delitem(sys.modules, module)  # as in another process
        question = load_module(tmp_path / "utils.py").question
        with caplog.at_level(logging.WARNING, "multiform"):
            return built(task(doc_to_text=question))[0].request.context

    before = first_prompt()
    assert [record.getMessage() for record in caplog.records] == [
        "t: the prompts are not cached, as they depend on code that may read anything (doc_to_text)"
    ]
    change(tmp_path)
    assert first_prompt() != before


def test_code_that_only_scores_or_gives_documents_does_not_keep_prompts_from_the_cache(task, tmp_path):
    built(task(process_docs=lambda docs: docs, process_results=lambda doc, results: {"acc": 1}))
    assert len(list((tmp_path / "cache" / "requests").iterdir())) == 1


def test_prompts_of_a_sampler_that_a_user_wrote_are_not_cached(task, tmp_path, monkeypatch):
    class Mine(FirstNSampler):
        pass

    monkeypatch.setitem(samplers._entries, "mine", Mine)
    built(task(num_fewshot=1, fewshot_split="test", fewshot_config={"sampler": "mine"}))
    assert not (tmp_path / "cache" / "requests").exists()


class Chatting(DummyModel):
    """A model whose responses and chat template are known by its identity."""

    stored = True
    template = "{{ messages[0].content }}"

    def chat_template_text(self):
        return self.template


@pytest.mark.parametrize(
    ("changes", "files"),
    [({}, 1), ({"template": "{{ strftime_now('%d') }}"}, 0), ({"stored": False}, 0), ({"template": None}, 0)],
    ids=["known", "date", "code", "unknown"],
)
def test_chats_are_cached_only_if_the_template_gives_the_same_text_tomorrow(changes, files, tmp_path, monkeypatch):
    monkeypatch.setenv("MULTIFORM_CACHE", str(tmp_path / "cache"))
    for name, value in changes.items():
        monkeypatch.setattr(Chatting, name, value)
    evaluate(model=Chatting(), tasks="quiz@generate", limit=2, apply_chat_template=True, cache_requests=True)
    assert len(list((tmp_path / "cache").rglob("requests-*"))) == files
