"""Benchmarks whose published score is a judge's, end to end: real rows, and a server for model and judge."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from multiform.cli.main import main
from multiform.results.read import read_results
from tests.conftest import ROOT
from tests.models.fake_server import FakeServer
from tests.models.fake_server_fixture import server  # noqa: F401

ROWS = ROOT.parent / "shared" / "rows"
NUMBER = 30


@pytest.mark.skipif(not ROWS.is_dir(), reason=f"no benchmark rows at {ROWS}")
def test_simpleqa_is_graded_by_a_judge(server: FakeServer, tmp_path: Path) -> None:  # noqa: F811
    lines = (ROWS / "lighteval/SimpleQA/default/test.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines[:NUMBER]]
    right = {row["problem"].strip(): row["answer"].strip() for row in rows}

    def reply(prompt: str) -> str:
        if prompt in right:  # the model, which knows a third of the answers and admits to another third
            kind = hashlib.sha256(prompt.encode()).digest()[0] % 3
            return [f"It is {right[prompt]}", "I do not know.", "It is Bielefeld."][kind]
        fields = dict(re.findall(r"^(Reference|Answer): (.*)$", prompt, re.MULTILINE))
        reference, answer = fields.get("Reference", ""), fields.get("Answer", "")
        known = "NOT ATTEMPTED" if "not know" in answer else "CORRECT" if reference in answer else "INCORRECT"
        return f"The reference is {reference}.\nVerdict: {known}"

    server.reply = reply
    model = ["--model", "openai-chat", "--model_args", f"model=tiny,base_url={server.base_url}"]
    judge = ["--judge_args", f"base_url={server.base_url}"]
    folder = ["--dataset_mirror", str(ROWS), "--output_path", str(tmp_path), "--log_samples"]
    assert main(["run", "simpleqa@judge", "--limit", str(NUMBER), *model, *judge, *folder]) == 0
    assert {asked.payload["model"] for asked in server.asked} == {"tiny", "gpt-4.1"}
    results = read_results(tmp_path)
    scores = results["simpleqa@judge"]
    kinds = [hashlib.sha256(problem.encode()).digest()[0] % 3 for problem in right]
    assert scores["judge"] == scores["verdict_correct"] == kinds.count(0) / NUMBER
    assert scores["verdict_not_attempted"] == kinds.count(1) / NUMBER
    assert scores["invalid"] == 0
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "report.html")]) == 0
