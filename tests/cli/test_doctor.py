"""`multiform doctor` says what is there, what is missing, and whether a run works."""

from __future__ import annotations

import json
import logging
import tomllib
from pathlib import Path

from multiform.cli import installation
from multiform.cli.main import main


def checks(capsys, *flags: str) -> tuple[int, dict[str, dict[str, str]]]:
    code = main(["doctor", "--json", *flags])
    return code, {check["subject"]: check for check in json.loads(capsys.readouterr().out)}


def test_a_missing_extra_comes_with_the_command_that_installs_it(capsys, monkeypatch):
    monkeypatch.setattr(installation, "find_spec", lambda name: None)
    code, found = checks(capsys, "--no_run")
    assert code == 0
    assert found["hf"]["state"] == "missing"
    assert found["hf"]["remedy"] == "pip install 'multiform[hf]'"


def test_every_extra_for_users_is_looked_for():
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert set(installation._EXTRAS) == {*extras["optional-dependencies"]} - {"all", "serving", "dev", "docs", "parity"}


def test_tokens_are_named_and_never_shown(capsys, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert main(["doctor", "--no_run"]) == 0
    printed = capsys.readouterr().out
    assert "HF_TOKEN" in printed
    assert "hf_secret" not in printed


def test_a_mirror_that_is_gone_is_a_failure(capsys, monkeypatch):
    monkeypatch.setenv("MULTIFORM_DATASET_MIRROR", "/no/such/folder")
    code, found = checks(capsys, "--no_run")
    assert code == 1
    assert found["mirrors"]["state"] == "failed"


def test_the_trial_run_works_and_a_broken_one_is_reported(capsys, monkeypatch):
    monkeypatch.setattr(installation, "find_spec", lambda name: None)  # the bundled model takes long
    code, found = checks(capsys)
    assert (code, found["run dummy"]["state"]) == (0, "ok")
    monkeypatch.setattr("multiform.run.evaluate.evaluate", lambda **_: 1 / 0)
    code, found = checks(capsys)
    assert (code, found["run dummy"]["state"]) == (1, "failed")
    assert "ZeroDivisionError" in found["run dummy"]["finding"]


def test_warnings_about_the_trial_run_are_not_shown(capsys, monkeypatch):
    def evaluate(**_):
        logging.getLogger("multiform").warning("add --apply_chat_template")
        return ["quiz@mcqa", "quiz@cloze"]

    monkeypatch.setattr(installation, "find_spec", lambda name: None)
    monkeypatch.setattr("multiform.run.evaluate.evaluate", evaluate)
    assert main(["doctor"]) == 0
    assert "apply_chat_template" not in capsys.readouterr().err
    assert logging.root.manager.disable == logging.NOTSET
