"""The folders of tasks that a user names, lm-eval's among them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from multiform.errors import UsageError
from multiform.imports import lm_eval_finder as finder
from multiform.tasks.folders import LIBRARY, task_folders


def test_the_library_comes_first(tmp_path):
    assert task_folders(None) == [LIBRARY]
    assert task_folders(tmp_path) == task_folders([str(tmp_path)]) == [LIBRARY, tmp_path]


@pytest.mark.parametrize("name", ["nowhere", "x" * 5000, "a\0b"])
def test_a_folder_that_is_not_there_is_an_error(name):
    with pytest.raises(UsageError, match=r"--include_path: no folder '.*; check the path"):
        task_folders(name)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An lm-eval that may be found but not imported."""
    package = tmp_path / "site" / "lm_eval"
    (package / "tasks").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "lm_eval", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return package


def test_lm_eval_stands_for_its_task_files(package):
    assert task_folders("lm_eval") == [LIBRARY, package / "tasks"]
    assert "lm_eval" not in sys.modules


def test_it_does_so_where_its_name_is_provided_by_this_package(package, monkeypatch):
    monkeypatch.setattr(finder, "installed", True)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    assert task_folders("lm_eval") == [LIBRARY, package / "tasks"]


def test_it_does_so_where_it_is_installed_from_a_clone(package, monkeypatch):
    class Editable:
        """Finds packages as a development install does, which is on no path."""

        @staticmethod
        def find_spec(name, path=None, target=None):
            return importlib.util.spec_from_file_location(name, package / "__init__.py")

    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Editable])
    assert task_folders("lm_eval") == [LIBRARY, package / "tasks"]


def test_a_folder_of_that_name_wins_and_it_is_said(package, tmp_path, caplog):
    (tmp_path / "lm_eval").mkdir()
    assert task_folders("lm_eval") == [LIBRARY, Path("lm_eval")]
    assert caplog.messages == ["--include_path lm_eval: the folder here is used, not the installed lm-eval"]


def test_a_path_to_such_a_folder_is_used_without_a_word(package, tmp_path, caplog):
    (tmp_path / "lm_eval").mkdir()
    assert task_folders("./lm_eval") == [LIBRARY, Path("lm_eval")]
    assert caplog.messages == []


@pytest.mark.process
def test_without_lm_eval_its_name_is_an_error_that_says_what_to_do(tmp_path):
    (tmp_path / "lm_eval.py").write_text("")  # a module of that name, which has no tasks
    program = (
        "from multiform.cli.main import main; raise SystemExit(main(['ls', 'tasks', '--include_path', 'lm_eval']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr == (
        "error: --include_path lm_eval: lm-eval is not installed, and there is no folder 'lm_eval'; "
        "pip install lm-eval, or give the path of its tasks\n"
    )
