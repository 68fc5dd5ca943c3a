"""What a report is called."""

from __future__ import annotations

from pathlib import Path

from multiform import evaluate
from multiform.report import write_report


def test_a_group_stands_for_its_tasks(tmp_path: Path) -> None:
    (tmp_path / "both.yaml").write_text("group: both\ntask: [quiz, quiz_problems]\n")
    tasks = ["both@bpb", "quiz@mcqa"]
    results = evaluate(model="dummy", tasks=tasks, include_path=tmp_path, limit=4, progress=False, use_cache=False)
    page = write_report([results], tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<title>both, quiz</title>" in page
