"""CONTRIBUTING draws the packages as they are, and follows a document through the code as it runs."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

import multiform

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
STEPS = re.findall(r"^\d+\. .*", PAGE.partition("## The way of one document")[2].partition("\n## ")[0], re.MULTILINE)


def _package_map() -> ModuleType:
    spec = importlib.util.spec_from_file_location("package_map", ROOT / "tools" / "scripts" / "package_map.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["package_map"] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def _functions(step: str) -> list[str]:
    """The functions that a step names, as `module:qualified.name`."""
    pairs = re.findall(r"`([\w/]+)\.py` `([\w.]+)`", step)
    return [f"multiform.{module.replace('/', '.')}:{name}" for module, name in pairs]


@pytest.mark.parametrize("addition", ["a flag", "a lint rule", "a metric", "a server protocol", "a chart"])
def test_what_is_often_added_touches_files_that_exist(addition: str) -> None:
    section = PAGE.partition(f"## Add {addition}\n")[2].partition("\n## ")[0]
    named = re.findall(r"`((?:[\w]+/)+[\w]+\.(?:py|js))`", section)
    assert named
    places = (ROOT / "src" / "multiform", ROOT)
    assert [name for name in named if not any((place / name).is_file() for place in places)] == []


@pytest.mark.parametrize("package", ["formats", "tasks", "forms", "run"])
def test_a_package_says_in_its_docstring_what_this_page_says(package: str) -> None:
    [sentence] = re.findall(rf"^\* `{package}/`: (.*)$", PAGE, re.MULTILINE)
    docstring = importlib.import_module(f"multiform.{package}").__doc__ or ""
    assert docstring.splitlines()[0].partition(": ")[2] == sentence


def test_the_map_has_every_package_with_its_size() -> None:
    package_map = _package_map()
    shown = package_map.sizes(PAGE.partition(package_map.BEGIN)[2].partition(package_map.END)[0])
    actual = package_map.sizes(package_map.drawn())
    assert list(shown) == list(actual), "run python tools/scripts/package_map.py --write"
    for name, (modules, lines) in actual.items():
        close = (pytest.approx(modules, rel=0.1, abs=1), pytest.approx(lines, rel=0.1, abs=20))
        assert shown[name] == close, f"{name}: run python tools/scripts/package_map.py --write"


def test_the_way_of_a_document_has_at_most_25_steps_that_each_name_a_function() -> None:
    assert len(STEPS) <= 25
    assert [step for step in STEPS if not _functions(step)] == []


def test_a_run_calls_the_functions_of_the_steps_in_their_order(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install 'multiform[hf]'")
    from tests.parity.tiny_model import save_tiny_model

    calls: dict[str, int] = {}

    def record(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            name = f"{frame.f_globals.get('__name__')}:{frame.f_code.co_qualname}"
            calls.setdefault(name, len(calls))

    model = save_tiny_model(tmp_path / "model")
    before = sys.getprofile()
    sys.setprofile(record)
    try:
        multiform.evaluate(
            model="hf",
            model_args={"pretrained": str(model)},
            tasks="quiz@mcqa",
            num_fewshot=1,
            limit=1,
            output_path=tmp_path / "results",
        )
    finally:
        sys.setprofile(before)
    named = [function for step in STEPS for function in _functions(step)]
    assert [function for function in named if function not in calls] == []
    assert sorted(named, key=calls.__getitem__) == named
