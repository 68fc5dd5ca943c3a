"""`python -m multiform.compat.run script.py` runs a script on Multiform."""

from __future__ import annotations

import sys

import pytest

from multiform.compat import run, uninstall


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    uninstall("lm_eval")
    uninstall("eval_framework")


def test_a_script_gets_its_arguments_and_our_lm_eval(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("import sys, lm_eval\nprint(__name__, sys.argv[1:], lm_eval.__multiform__)\n")
    assert run.main([str(script), "--limit", "3"]) == 0
    assert capsys.readouterr().out == "__main__ ['--limit', '3'] True\n"


def test_a_script_gets_our_eval_framework(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text(
        "import eval_framework\nfrom eval_framework.tasks.task_style import MCStyle\n"
        "print(eval_framework.__multiform__, MCStyle().get_cue_text())\n"
    )
    assert run.main([str(script)]) == 0
    assert capsys.readouterr().out == "True Answer:\n"


def test_modules_beside_the_script_are_found(tmp_path, capsys):
    (tmp_path / "beside_of_tests.py").write_text("VALUE = 3\n")
    (tmp_path / "script.py").write_text("from beside_of_tests import VALUE\nprint(VALUE)\n")
    assert run.main([str(tmp_path / "script.py")]) == 0
    assert capsys.readouterr().out == "3\n"


def test_an_error_of_ours_is_one_line_and_its_code(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("from lm_eval.api.registry import get_model\nget_model('dumy')\n")
    assert run.main([str(script)]) == 2
    told = "error: model: no model 'dumy' here; did you mean 'dummy'? (script.py:2, in <module>)\n"
    assert capsys.readouterr().err == told


BROKEN = """
import lm_eval
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager
from multiform.tasks.folders import LIBRARY

class Broken(LM):
    def loglikelihood(self, requests):
        return [requests[0].args[7]]
    def loglikelihood_rolling(self, requests):
        return []
    def generate_until(self, requests):
        return []

manager = TaskManager(include_path=LIBRARY, include_defaults=False)
lm_eval.simple_evaluate(model=Broken(), tasks=["quiz"], limit=1, task_manager=manager)
"""


def test_an_error_of_the_scripts_own_code_is_said_with_its_line(tmp_path, capsys):
    (tmp_path / "script.py").write_text(BROKEN)
    assert run.main([str(tmp_path / "script.py")]) == 1
    told = capsys.readouterr().err
    assert "model 'Broken' failed: IndexError" in told
    assert told.endswith("(script.py:9, in loglikelihood)\n")


@pytest.mark.parametrize(
    ("given", "code", "told"), [([], 2, "usage"), (["--help"], 0, "usage"), (["no.py"], 2, "no such file")]
)
def test_without_a_script_it_says_how_it_is_used(given, code, told, capsys):
    assert run.main(given) == code
    assert told in capsys.readouterr().err
