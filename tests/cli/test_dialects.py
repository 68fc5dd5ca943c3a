"""`convert`, `formats explain`, Python tasks and perturbations on the command line."""

from __future__ import annotations

import json

import pytest
import yaml

from multiform import FormatConfig

TASKS = """
from multiform import BaseTask, BPBStyle, ClozeStyle, MCStyle

import pathlib; pathlib.Path("imported.txt").touch()

class _Base(BaseTask[str]):
    DATASET_PATH = "rows.jsonl"
    SAMPLE_SPLIT = "test"
    FEWSHOT_SPLIT = "test"

    def _get_raw_question(self, item): return item["question"]
    def _get_choices(self, item): return item["choices"]
    def _get_correct_index(self, item): return item["answer"]

class Ranked(_Base):
    NAME = "ranked"
    TASK_STYLER = ClozeStyle()

class Lettered(_Base):
    NAME = "lettered"
    TASK_STYLER = MCStyle(question_prefix="Q: ")

class Bits(_Base):
    NAME = "bits"
    TASK_STYLER = BPBStyle()

class _Nameless(_Base):
    TASK_STYLER = BPBStyle()
"""


@pytest.fixture
def tasks(folder):
    folder.task()
    folder.write({"py/my_tasks.py": TASKS.replace("rows.jsonl", "../rows.jsonl")})
    return folder


def test_python_tasks_are_listed_without_being_run(tasks):
    listed = tasks.run("ls", "tasks", "--include_path", "py", "--json").json()
    assert {"bits", "lettered", "ranked"} <= {row["name"] for row in listed}
    assert not (tasks.path / "imported.txt").exists()


def test_python_tasks_run_by_name_by_file_and_in_another_format(tasks):
    by_name = tasks.run("run", "--model", "dummy", "--tasks", "lettered", "--include_path", "py", "--json").json()
    assert set(by_name["results"]) == {"lettered"}
    by_file = tasks.run("run", "--model", "dummy", "--tasks", "py/my_tasks.py", "--json").json()
    assert set(by_file["results"]) == {"ranked", "lettered", "bits"}
    assert "bits_per_byte_mean,none" in by_file["results"]["bits"]
    under = tasks.run("show", "lettered@cloze::pure", "--include_path", "py", "--json").json()
    assert under["requests"][0]["context"] == "Question 0? ______"


def test_a_python_task_supports_all_formats(tasks):
    ran = tasks.run("run", "--model", "dummy", "--tasks", "lettered@all", "--include_path", "py", "--json").json()
    assert set(ran["results"]) >= {
        f"lettered@{name}" for name in ("mcqa", "cloze", "bpb", "generate", "cot", "MCStyle")
    }


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1", "task.py: it defines no task; subclass BaseTask and give the class a NAME"),
        ("class T(BaseTask:\n    NAME = 't'\n", "task.py:1: not valid Python: "),
        ("from multiform import BaseTask\n1 / 0\nclass T(BaseTask):\n    NAME = 't'\n", "task.py failed to load: Zero"),
        (
            "from multiform import BaseTask, MCStyle\nclass T(BaseTask):\n    NAME = 't'\n    TASK_STYLER = MCStyle()\n"
            "    DATASET_PATH = 'rows.jsonl'\n    SAMPLE_SPLIT = 'test'\n",
            "task.py:2: T: a TASK_STYLER needs _get_raw_question, which the class does not have; "
            "define _get_raw_question(self, item)",
        ),
        (
            "from multiform import BaseTask\nclass T(BaseTask):\n    NAME = 't'\n"
            "    DATASET_PATH = 'rows.jsonl'\n    SAMPLE_SPLIT = 'test'\n",
            "task.py:2: T: neither a TASK_STYLER nor hooks of its own",
        ),
        ("from multiform import BaseTask\nclass T(BaseTask):\n    NAME = 't'\n", "task.py:2: T: no DATASET_PATH"),
    ],
)
def test_a_bad_python_task_is_one_clear_error(folder, code, message):
    folder.write({"task.py": code})
    ran = folder.run("run", "--model", "dummy", "--tasks", "task.py")
    assert ran.code == 2
    assert len(ran.errors) == 1
    assert message in ran.errors[0]


def test_show_and_run_take_a_perturbation(folder):
    folder.task("formats: mcqa\n")
    shown = folder.run("show", "task.yaml", "--perturbation", "type=uppercase", "--json")
    assert shown.json()["requests"][0]["context"].startswith("Question: QUESTION 0?\nA. x0")
    ran = folder.run("run", "--model", "dummy", "--tasks", "task.yaml", "--perturbation", "probability=0.5", "--json")
    assert ran.json()["configs"]["t"]["perturbation"] == {"probability": 0.5}
    bad = folder.run("run", "--model", "dummy", "--tasks", "task.yaml", "--perturbation", "type=swap")
    assert bad.code == 2
    assert bad.errors == [
        "error: --perturbation: type: expected one of editor, permute, replace, delete, uppercase, got 'swap'; "
        "write e.g. type=editor,probability=0.1,seed=42"
    ]


@pytest.mark.parametrize("to", ["formats", "template", "style"])
@pytest.mark.parametrize("name", ["mcqa", "cot", "mcq::gpqa", "cloze::pure", "BPBStyle", "MCCompletionStyle"])
def test_a_converted_format_makes_the_same_prompts(folder, name, to):
    folder.task(f"formats: {json.dumps(name)}\n")
    converted = folder.run("convert", name, "--to", to)
    assert (converted.code, converted.err) == (0, "")
    folder.task(converted.out, name="other.yaml")
    first = folder.run("show", "task.yaml", "--num_fewshot", "2", "--json").json()
    second = folder.run("show", "other.yaml", "--num_fewshot", "2", "--json").json()
    assert first["requests"] == second["requests"]
    assert first["target"] == second["target"]


@pytest.mark.parametrize(("to", "ending"), [("formats", "yaml"), ("template", "yaml"), ("style", "py")])
def test_a_converted_task_makes_the_same_prompts(folder, to, ending):
    folder.task("formats: {type: mcqa, question_prefix: 'Q: '}\nfewshot_split: test\nmetadata: {version: 2}\n")
    converted = folder.run("convert", "task.yaml", "--to", to)
    assert converted.code == 0
    folder.write({f"made.{ending}": converted.out})
    first = folder.run("show", "task.yaml", "--num_fewshot", "2", "--json").json()
    second = folder.run("show", f"made.{ending}", "--num_fewshot", "2", "--json").json()
    assert first["requests"] == second["requests"]


def test_a_python_task_becomes_yaml_where_its_methods_are_simple(tasks):
    converted = tasks.run("convert", "lettered", "--include_path", "py", "--to", "formats")
    made = yaml.safe_load(converted.out)
    assert (made["doc_to_text"], made["doc_to_choice"], made["doc_to_target"]) == ("question", "choices", "answer")
    assert converted.err == ""


def test_what_cannot_be_converted_is_named(folder):
    folder.task("formats: mcqa\nprocess_docs: !function utils.first\n")
    folder.write({"utils.py": "def first(docs):\n    kept = docs[:1]\n    return kept\n"})
    converted = folder.run("convert", "task.yaml", "--to", "template")
    assert converted.code == 0
    assert converted.err.startswith("note: t: process_docs is code (")
    assert "process_docs" not in converted.out


def test_conversion_errors(folder):
    folder.task()
    assert folder.run("convert", "task.yaml", "--to", "style").errors == [
        "error: t: its prompts are not made by a format; choose a format, e.g. t@mcqa"
    ]
    assert folder.run("convert", "mcqaa", "--to", "style").errors[0].startswith("error: mcqaa: no task or format")
    assert folder.run("convert", "mcqa", "--to", "templates").errors[0].startswith("error: --to: ")


def test_formats_explain(folder):
    text = folder.run("formats", "explain", "mcq::mmlu").out
    assert 'What is the capital of France?\nA. Berlin\nB. Paris\nC. London\nAnswer:\n--- " A"' in text
    assert "template:\n  template_type: mcq\n" in text or "template: {template_type: mcq}" in text
    explained = folder.run("formats", "explain", "MCStyle", "--json").json()
    assert explained["fields"] == FormatConfig.by_name("MCStyle").to_dict()
    assert set(explained["dialects"]) == {"formats", "template", "style"}
    assert folder.run("formats", "explain", "nothing_like_it").code == 2


def test_ls_formats_names_the_other_dialects_too(folder):
    names = [row["name"] for row in folder.run("ls", "formats", "--json").json()]
    assert {"mcqa", "mcq::gpqa", "cloze::pure", "MCStyle", "BPBStyle"} <= set(names)
