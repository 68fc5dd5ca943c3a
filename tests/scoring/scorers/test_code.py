"""code: programs of completions are run with the tests of their documents."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest

from multiform import Task, TaskManager
from multiform.errors import ConfigError, DataError
from multiform.forms.scoring import build_scoring
from multiform.scoring.filters import Pipeline
from multiform.scoring.metrics import build_metric
from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers import scorers
from multiform.scoring.scorers.code import read_tests
from multiform.tasks.config import TaskConfig
from tests.conftest import ROOT

pytestmark = pytest.mark.process
SHARED = ROOT.parent / "shared"
DOC = {"prompt": "def double(x):\n", "test": "def check(f):\n    assert f(2) == 4", "name": "double"}
PROGRAM = "{{prompt}}{{code}}\n{{test}}\ncheck({{name}})"


def values(*texts: str, doc: dict[str, Any] = DOC, **kwargs: Any) -> dict[str, Any]:
    metrics = [build_metric({"metric": "passed"})]
    scorer = scorers.get("code")(pipeline=Pipeline("none", ()), metrics=metrics, **kwargs)
    [scored] = scorer.score_documents([[TextOutcome(prediction=text, references=("",)) for text in texts]], [doc])
    return scored


def test_a_completion_continues_the_prompt() -> None:
    assert values("    return 2 * x", program=PROGRAM) == {"passed": 1.0, "program_result": "passed"}
    assert values("    return x", program=PROGRAM) == {"passed": 0.0, "program_result": "AssertionError: "}


def test_the_first_or_the_last_block_is_the_program() -> None:
    text = "Here it is:\n```python\ndef double(x):\n    return x + x\n```\nUse it:\n```\ndouble(1)\n```\n"
    doc = {**DOC, "prompt": ""}
    assert values(text, doc=doc, program=PROGRAM)["passed"] == 1.0
    assert values(text, doc=doc, program=PROGRAM, block="last")["program_result"].startswith("NameError")


def test_repeats_are_averaged() -> None:
    assert values("    return 2 * x", "    return x", program=PROGRAM)["passed"] == 0.5


def test_programs_read_their_input_and_print() -> None:
    doc = {"tests": json.dumps([{"input": "1 2\n", "output": "3\n"}, {"input": "2 2", "output": "4.0"}])}
    for read in ("input()", "open(0).read()", "__import__('sys').stdin.buffer.readline().decode()"):
        assert values(f"print(sum(map(int, {read}.split())))", doc=doc, tests="tests")["program_result"] == "passed"
    assert values("print(3)", doc=doc, tests="tests")["program_result"] == "AssertionError: test 2"


def test_functions_get_arguments() -> None:
    doc = {"tests": [{"input": "[1, 2]\n3", "output": "[3, 6]"}], "name": "scale"}
    code = "class Solution:\n    def scale(self, xs: List[int], by: int):\n        return tuple(by * x for x in xs)"
    assert values(code, doc=doc, tests="tests", function="name")["passed"] == 1.0


def test_packed_tests_are_read_and_packed_programs_are_not() -> None:
    def packed(value: Any) -> str:
        return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()

    tests = [{"input": "1", "output": "2"}]
    assert read_tests(packed(json.dumps(tests))) == tests
    with pytest.raises(DataError, match="it names"):
        read_tests(packed(Path))


def test_a_task_has_to_say_that_it_runs_code() -> None:
    config = TaskConfig(
        task="t", dataset_path="d", test_split="test", doc_to_text="q", doc_to_target="a",
        output_type="generate_until", scorer={"type": "code", "kwargs": {"program": "{{code}}"}},
    )  # fmt: skip
    with pytest.raises(ConfigError, match="unsafe_code: true"):
        build_scoring(config)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "solution", "form"),
    [
        ("humaneval", "{canonical_solution}", "complete"),
        ("humaneval_plus", "{canonical_solution}", "complete"),
        ("mbpp", "{code}", "complete"),
        ("mbpp_plus", "{code}", "instruct"),
        ("cruxeval_i", "{input}", "short"),
        ("cruxeval_i", "It has to be so.\nThe final answer is {input}", "cot"),
        ("cruxeval_i", "[ANSWER]\nassert f({input}) == {output}\n", "lm-eval"),
    ],
)
def test_the_solutions_of_the_benchmark_pass(name: str, solution: str, form: str) -> None:
    folders = [SHARED / "data", SHARED / "rows"]
    if not all(folder.is_dir() for folder in folders):
        pytest.skip(f"no benchmark rows at {folders}")
    [config] = TaskManager().nodes(f"{name}@{form}")
    assert isinstance(config, TaskConfig)
    task = Task.from_config(config, dataset_mirror=Path(":".join(map(str, folders))))
    docs = [doc for _, doc in task.doc_iterator(limit=40)]
    [scorer] = build_scoring(config).scorers
    outcomes = [[TextOutcome(prediction=solution.format(**doc), references=("",))] for doc in docs]
    scored = scorer.score_documents(outcomes, docs)
    assert {value["program_result"] for value in scored} == {"passed"}
    assert len(docs) >= 18


def test_lm_eval_s_cruxeval_is_right_about_numbers_and_wrong_about_texts() -> None:
    [config] = TaskManager().nodes("cruxeval_o@lm-eval")
    assert isinstance(config, TaskConfig)
    [scorer] = build_scoring(config).scorers
    docs = [
        {"function": "def f(x):\n    return x", "input": "[1, 2]", "output": "[1, 2]"},
        {"function": "def f(x):\n    return x", "input": "'ab'", "output": "'ab'"},
    ]
    said = [f"[ANSWER]\nassert f({doc['input']}) == {doc['output']}  # so\n" for doc in docs]
    scored = scorer.score_documents([[TextOutcome(prediction=text, references=("",))] for text in said], docs)
    assert [value["passed"] for value in scored] == [1.0, 0.0]
