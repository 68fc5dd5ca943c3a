"""Programs that a model has written: they run to their end or fail, and reach nothing outside of their process."""

from __future__ import annotations

import json
import os
import socket
import time

import pytest

from multiform import evaluate
from multiform.cli.main import main
from multiform.execution import CodeEval, run_program

pytestmark = pytest.mark.process

HARMLESS = {
    "assertion": "assert 1 + 1 == 2",
    "libraries": "import math, json, re, collections, heapq, itertools, datetime, random\nassert math.pi > 3",
    "output": "print('x' * 1000)",
    "file of its own": "open('x', 'w').write('a')\nassert open('x').read() == 'a'",
    "main": "if __name__ != '__main__': raise ValueError",
}


@pytest.mark.parametrize("source", HARMLESS.values(), ids=HARMLESS.keys())
def test_a_harmless_program_passes(source):
    assert run_program(source).result == "passed"


HARMFUL = {
    "failure": ("assert 1 + 1 == 3", "AssertionError"),
    "not Python": ("def f(:", "SyntaxError"),
    "exit": ("raise SystemExit(0)", "SystemExit"),
    "exit of the process": ("import os\nos._exit(0)", "ended the process"),
    "interrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "endless loop": ("while True: pass", "timed out"),
    "endless wait": ("import time\ntime.sleep(1000)", "timed out"),
    "memory": ("x = 'a' * 10**11", "MemoryError"),
    "large file": ("open('x', 'w').write('a' * 10**8)", ""),
    "write": ("open(TARGET, 'w')", "may not open"),
    "read": ("open(TARGET).read()", "may not open"),
    "low-level open": ("import os\nos.open(TARGET, os.O_WRONLY | os.O_CREAT)", "may not open"),
    "remove": ("import os\nos.remove(TARGET)", "may not use os.remove"),
    "rename": ("import os\nos.rename(TARGET, 'x')", "may not use os.rename"),
    "remove all": ("import os, shutil\nshutil.rmtree(os.path.dirname(TARGET))", "may not use shutil.rmtree"),
    "shell": ("import os\nos.system('touch ' + TARGET)", "may not use os.system"),
    "subprocess": ("import subprocess\nsubprocess.run(['ls'])", "PermissionError"),
    "fork": ("import os\nwhile True: os.fork()", "may not use os.fork"),
    "kill": ("import os\nos.kill(os.getppid(), 9)", "may not use os.kill"),
    "network": ("import socket\nsocket.create_connection(('127.0.0.1', PORT))", "may not use socket"),
    "web": ("import urllib.request\nurllib.request.urlopen('http://127.0.0.1:PORT/')", "PermissionError"),
    "C library": ("import ctypes\nctypes.CDLL(None).system(b'true')", "may not use ctypes"),
    "limits": ("import resource\nresource.setrlimit(resource.RLIMIT_CPU, (-1, -1))", ""),
    "environment": ("import os\nassert 'CANARY' in os.environ", "AssertionError"),
}


@pytest.mark.parametrize(("source", "result"), HARMFUL.values(), ids=HARMFUL.keys())
def test_a_harmful_program_fails_and_changes_nothing(source, result, tmp_path, monkeypatch):
    monkeypatch.setenv("CANARY", "secret")
    target = tmp_path / "precious"
    target.write_text("here")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        source = source.replace("TARGET", repr(str(target))).replace("PORT", str(server.getsockname()[1]))
        started = time.monotonic()
        outcome = run_program(source, seconds=1)
        assert time.monotonic() - started < 20
        with pytest.raises(BlockingIOError):
            server.accept()
    assert not outcome.passed
    assert result in outcome.result
    assert target.read_text() == "here"
    assert os.listdir(tmp_path) == ["precious"]


def test_the_solutions_of_humaneval_pass(mirror):
    lines = (mirror / "openai" / "openai_humaneval" / "default" / "test.jsonl").read_text().splitlines()
    for row in map(json.loads, lines[:8]):
        program = f"{row['prompt']}{row['canonical_solution']}\n{row['test']}\ncheck({row['entry_point']})"
        assert run_program(program, seconds=20).result == "passed"


def test_what_protects_the_machine_is_said():
    protection = run_program("").protection
    assert protection[0] in ("network namespace", "sockets refused by Python")
    assert protection[1:] == ("resource limits", "audit hook")


def test_pass_at_k_is_that_of_the_library_evaluate():
    good, bad = "def f(x): return 2 * x", "def f(x): return x"
    tests = ["assert f(2) == 4", "assert f(3) == 6"]
    values, results = CodeEval().compute(references=tests, predictions=[[good, bad, bad], [bad] * 3], k=[1, 2, 5])
    assert values == {"pass@1": pytest.approx(1 / 6), "pass@2": pytest.approx(1 / 3)}
    assert [entry["passed"] for _, entry in results[0]] == [True, False, False]


UTILS = """
import evaluate
pass_at_k = evaluate.load("code_eval")
pass_at_k.compute(references=["assert add(2, 3) == 5"], predictions=[["def add(a, b): return a * b"]], k=[1])
def pass_at_1(references, predictions):
    return pass_at_k.compute(references=references, predictions=[predictions[0]], k=[1])[0]["pass@1"]
def build_predictions(resps, docs):
    return [[doc["prompt"] + r for r in resp] for resp, doc in zip(resps, docs)]
"""
TASK = """
task: programs
dataset_path: rows.jsonl
test_split: test
unsafe_code: true
output_type: generate_until
doc_to_text: prompt
doc_to_target: "{{ test }}\\ncheck({{ entry_point }})"
metric_list: [{metric: !function utils.pass_at_1, aggregation: mean, higher_is_better: true}]
filter_list: [{name: create_test, filter: [{function: custom, filter_fn: !function utils.build_predictions}]}]
"""


def test_a_task_like_humaneval_runs_its_programs_here_and_only_with_consent(tmp_path, capsys):
    (tmp_path / "utils.py").write_text(UTILS)
    (tmp_path / "programs.yaml").write_text(TASK)
    tests = ["def check(f):\n    assert f(2) == 4\n", "def check(f):\n    assert f(2) == 5\n"]
    rows = [{"prompt": "def twice(x):\n", "test": test, "entry_point": "twice"} for test in tests]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["run", str(tmp_path / "programs.yaml"), "--model", "dummy"]) == 2
    assert "add --confirm_run_unsafe_code" in capsys.readouterr().err
    results = evaluate(
        tasks=[str(tmp_path / "programs.yaml")],
        model="dummy",
        model_args={"text": "    return 2 * x\n"},
        confirm_run_unsafe_code=True,
    )
    assert results["programs"]["pass_at_1,create_test"] == 0.5
