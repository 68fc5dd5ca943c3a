"""`import lm_eval` in a task's file is answered here, whether lm-eval is installed or not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from multiform import ConfigError, TaskManager, compat
from multiform.imports import lm_eval_finder as finder
from multiform.tasks.functions import FunctionRef, load_module
from multiform.tasks.keys import FilePosition


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    monkeypatch.setattr(finder, "folders", set())
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "lm_eval"}
    yield
    finder.uninstall()
    for name in [name for name in sys.modules if name.partition(".")[0] == "lm_eval"]:
        del sys.modules[name]
    sys.modules.update(before)


@pytest.fixture
def hidden(monkeypatch):
    """An environment without lm-eval."""
    monkeypatch.setattr(finder, "real_folder", lambda: None)


@pytest.fixture
def other(tmp_path, monkeypatch):
    """An lm-eval that is installed, with a helper that nobody else has."""
    package = tmp_path / "site" / "lm_eval"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("REAL = True\n")
    (package / "utils.py").write_text(
        "def special():\n    return 'special'\n\ndef general_detokenize(text):\n    return 0\n"
    )
    monkeypatch.syspath_prepend(str(package.parent))
    for name in [name for name in sys.modules if name.partition(".")[0] == "lm_eval"]:
        monkeypatch.delitem(sys.modules, name)
    return package


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_a_task_file_gets_our_helpers_without_lm_eval(hidden, tmp_path):
    write(tmp_path, utils="from lm_eval.utils import general_detokenize as tidy\nimport lm_eval.api.instance\n")
    module = load_module(tmp_path / "utils.py")
    assert module.tidy("so .") == "so."
    assert module.lm_eval.__multiform__


def test_it_gets_the_same_where_lm_eval_is_installed_and_leaves_that_as_it_was(other, tmp_path):
    import lm_eval

    write(tmp_path, utils="from lm_eval.utils import general_detokenize as tidy\n")
    assert load_module(tmp_path / "utils.py").tidy("so .") == "so."
    assert sys.modules["lm_eval"] is lm_eval
    assert lm_eval.REAL
    assert "lm_eval.utils" not in sys.modules


def test_a_helper_that_is_not_answered_comes_from_the_installed_lm_eval(other, tmp_path):
    write(tmp_path, utils="from lm_eval.utils import special\n")
    assert load_module(tmp_path / "utils.py").special() == "special"


def test_without_lm_eval_it_is_an_error_that_says_so(hidden, tmp_path):
    write(tmp_path, utils="from lm_eval.utils import special\n")
    place = FunctionRef("utils.special", tmp_path, FilePosition(tmp_path / "task.yaml", 3))
    with pytest.raises(
        ConfigError, match=r"task.yaml:3.*cannot import name 'special'.*'multiform docs lm-eval' says what of lm"
    ):
        place.resolve()


def test_tasks_modules_are_files_of_the_folder_in_use(hidden, tmp_path):
    first = write(
        tmp_path / "a", facts__numbers="ONE = 'a'\n", facts__utils="from lm_eval.tasks.facts.numbers import ONE\n"
    )
    other = write(
        tmp_path / "b", facts__numbers="ONE = 'b'\n", facts__utils="from lm_eval.tasks.facts import numbers\n"
    )
    assert load_module(first / "facts" / "utils.py").ONE == "a"
    assert load_module(other / "facts" / "utils.py").numbers.ONE == "b"


@pytest.mark.parametrize(("named", "found"), [(None, "outer"), ("", "outer"), ("board", "inner")])
def test_the_outer_folder_goes_first_and_a_named_one_before_those_above_it(hidden, tmp_path, named, found):
    write(
        tmp_path,
        facts__numbers="ONE = 'outer'\n",
        board__facts__numbers="ONE = 'inner'\n",
        board__facts__utils="from lm_eval.tasks.facts.numbers import ONE\n",
    )
    if named is not None:
        TaskManager(tmp_path / named)
    assert found == load_module(tmp_path / "board" / "facts" / "utils.py").ONE


def test_a_folder_above_is_looked_through_unless_everybody_may_write_to_it(hidden, tmp_path):
    code = "from lm_eval.tasks.facts.numbers import ONE\n"
    write(tmp_path, facts__numbers="ONE = 1\n", here__more__utils=code, here__more__again=f"{code}# again\n")
    assert load_module(tmp_path / "here" / "more" / "utils.py").ONE == 1
    tmp_path.chmod(0o777)
    with pytest.raises(ModuleNotFoundError, match=r"lm_eval\.tasks\.facts"):
        load_module(tmp_path / "here" / "more" / "again.py")


def test_an_importable_module_gets_the_same_answers(hidden, tmp_path, monkeypatch):
    write(tmp_path, site__mine_of_tests="from lm_eval.utils import general_detokenize as tidy\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    place = FunctionRef("mine_of_tests.tidy", tmp_path, FilePosition(tmp_path / "task.yaml", 3))
    assert place.resolve()("so .") == "so."


def test_a_file_is_one_module_whichever_way_it_is_loaded(hidden, tmp_path):
    write(tmp_path, facts__numbers="class One: pass\n", facts__utils="from lm_eval.tasks.facts.numbers import One\n")
    assert load_module(tmp_path / "facts" / "utils.py").One is load_module(tmp_path / "facts" / "numbers.py").One


def test_what_a_function_imports_when_it_is_called_is_found_once_installed(hidden, tmp_path):
    code = "import lm_eval\n\ndef later():\n    from lm_eval.tasks.facts.numbers import ONE\n    return ONE\n"
    write(tmp_path, facts__numbers="ONE = 1\n", facts__utils=code)
    module = load_module(tmp_path / "facts" / "utils.py")
    assert compat.install("lm_eval")
    assert module.later() == 1


def test_install_leaves_an_installed_lm_eval_alone_unless_it_is_asked_to(other):
    assert not compat.install("lm_eval")
    import lm_eval

    assert lm_eval.REAL
    assert compat.install("lm_eval", instead=True)
    import lm_eval as ours
    from lm_eval.api.task import ConfigurableTask

    assert ours.__multiform__
    assert ConfigurableTask.__module__ == "multiform.compat.lm_eval.task"
    finder.uninstall()
    import lm_eval as again

    assert again.REAL


def test_our_modules_keep_their_own_names(hidden):
    compat.install("lm_eval")
    import lm_eval.api.task

    import multiform.compat.lm_eval.task as ours

    assert lm_eval.api.task is ours
    assert ours.__spec__.name == "multiform.compat.lm_eval.task"


def test_a_name_that_we_do_not_have_is_an_import_error(hidden):
    compat.install("lm_eval")
    with pytest.raises(ModuleNotFoundError, match=r"lm_eval.models.vllm_causallms"):
        import lm_eval.models.vllm_causallms  # noqa: F401
