"""Task files: includes, positions, `!function`, and what is wrong with YAML that does not parse."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from multiform.errors import ConfigError
from multiform.paths import display
from multiform.tasks.functions import resolve_functions
from multiform.tasks.keys import FilePosition, Source, StatedKeys
from multiform.tasks.yaml import read_yaml


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Writes files and reads the first of them."""
    monkeypatch.chdir(tmp_path)

    def write_and_read(**files: str) -> StatedKeys:
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__', '/')}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return read_yaml(tmp_path / f"{next(iter(files))}.yaml")

    return write_and_read


# Notes


def test_a_key_that_is_given_twice_is_noted_and_the_last_one_counts(read):
    file = read(task="tag: a\ntag: b\nmetadata:\n  x: 1\n  x: 2\n")
    assert file.data == {"tag": "b", "metadata": {"x": 2}}
    assert [str(note) for note in file.source.notes] == [
        "task.yaml:2: the key 'tag' is given twice (first on line 1), and this one counts; remove one of the two",
        "task.yaml:5: the key 'x' is given twice (first on line 4), and this one counts; remove one of the two",
    ]


def test_notes_of_an_included_file_are_handed_on_once(read):
    file = read(task="include: [a.yaml, b.yaml]\n", a="include: b.yaml\n", b="tag: x\ntag: y\n")
    assert [str(note).partition(":")[0] for note in file.source.notes] == ["b.yaml"]


# Include


def test_what_is_included_by_many_is_read_anew_when_it_changes(read):
    assert read(task="include: a.yaml\n", a="tag: x\n").data == {"tag": "x"}
    assert read(task="include: a.yaml\n", a="tag: y\n").data == {"tag": "y"}


def test_including_a_file_leaves_it_as_it_is(read):
    first = read(task="include: a.yaml\n", a="include: b.yaml\ntag: x\n", b="repeats: 2\n")
    assert read(task="include: a.yaml\n").data == first.data == {"tag": "x", "repeats": 2}


def test_file_wins_over_what_it_includes(read):
    file = read(task="include: base.yaml\nb: task\n", base="a: base\nb: base\n")
    assert file.data == {"a": "base", "b": "task"}


def test_file_wins_wherever_the_include_stands(read):
    assert read(task="b: task\ninclude: base.yaml\n", base="b: base\n").data == {"b": "task"}


def test_later_include_wins_over_an_earlier_one(read):
    file = read(task="include: [one.yaml, two.yaml]\n", one="a: 1\nb: 1\n", two="b: 2\nc: 2\n")
    assert file.data == {"a": 1, "b": 2, "c": 2}


def test_include_of_an_include_comes_first(read):
    file = read(task="include: one.yaml\n", one="include: two.yaml\nb: one\n", two="a: two\nb: two\n")
    assert file.data == {"a": "two", "b": "one"}


def test_include_is_relative_to_the_file_that_names_it(read):
    file = read(task="include: sub/one.yaml\n", sub__one="include: ../two.yaml\n", two="a: two\n")
    assert file.data == {"a": "two"}


def test_one_file_may_be_included_twice(read):
    file = read(
        task="include: [one.yaml, two.yaml]\n", one="include: base.yaml\n", two="include: base.yaml\n", base="a: 1\n"
    )
    assert file.data == {"a": 1}


def test_values_are_replaced_as_a_whole(read):
    file = read(task="include: base.yaml\nm: {b: 2}\nl: [2]\n", base="m: {a: 1}\nl: [1, 1]\n")
    assert file.data == {"m": {"b": 2}, "l": [2]}


def test_null_replaces_an_included_value(read):
    assert read(task="include: base.yaml\na:\n", base="a: 1\n").data == {"a": None}


def test_include_of_nothing_is_nothing(read):
    assert read(task="include:\na: 1\n").data == {"a": 1}


def test_task_list_is_not_handed_on(read):
    assert read(task="include: base.yaml\n", base="task_list: [a]\nb: 1\n").data == {"b": 1}


def test_included_file_may_have_any_name(tmp_path):
    (tmp_path / "_default_template_yaml").write_text("a: 1\n")
    (tmp_path / "task.yaml").write_text("include: _default_template_yaml\n")
    assert read_yaml(tmp_path / "task.yaml").data == {"a": 1}


# Positions


def place(file: StatedKeys, *path: str | int) -> str:
    assert file.source is not None
    return str(file.source.at(*path))


def test_key_has_the_file_and_line_that_hold_it(read):
    file = read(task="# a comment\n\ninclude: base.yaml\nb: 1\n", base="\na: 1\nb: 2\n")
    assert (place(file, "a"), place(file, "b")) == ("base.yaml:2", "task.yaml:4")


def test_key_of_an_included_include_has_its_own_file(read):
    file = read(task="include: one.yaml\n", one="include: two.yaml\n", two="\n\na: 1\n")
    assert place(file, "a") == "two.yaml:3"


def test_position_follows_the_include_that_wins(read):
    file = read(task="include: [one.yaml, two.yaml]\n", one="a: 1\n", two="\na: 2\n")
    assert place(file, "a") == "two.yaml:2"


def test_replaced_mapping_does_not_keep_positions_of_the_old_one(read):
    file = read(task="include: base.yaml\nm:\n  b: 2\n", base="m:\n  a: 1\n")
    assert (place(file, "m", "b"), place(file, "m", "a")) == ("task.yaml:3", "task.yaml:2")


def test_nested_lists_and_mappings_have_positions(read):
    file = read(task="l:\n  - a: 1\n    b:\n      - x\n      - y: 2\n  - - p\n    - q\n")
    assert [place(file, *path) for path in [("l", 0, "a"), ("l", 0, "b", 1, "y"), ("l", 1, 0), ("l", 1, 1)]] == [
        "task.yaml:2",
        "task.yaml:5",
        "task.yaml:6",
        "task.yaml:7",
    ]


def test_unknown_key_has_the_position_of_the_nearest_key_around_it(read):
    file = read(task="a: 1\nm:\n  b: 1\n")
    assert [place(file, "m", "x", 0), place(file, "x")] == ["task.yaml:2", "task.yaml:1"]


def test_part_of_a_file_has_positions_of_its_own(read):
    file = read(task="task:\n  - task: a\n    num_fewshot: 1\n")
    assert str(file.source.under("task", 0).at("num_fewshot")) == "task.yaml:3"


def test_key_of_several_lines_has_the_first(read):
    file = read(task="a: |\n  one\n  two\nb: >-\n  three\n\nc: 1\n")
    assert [place(file, key) for key in "abc"] == ["task.yaml:1", "task.yaml:4", "task.yaml:7"]


def test_what_an_alias_repeats_has_the_position_of_the_alias(read):
    file = read(task="a: &x\n  b: 1\nc: *x\n")
    assert (file.data["c"], place(file, "a", "b"), place(file, "c", "b")) == ({"b": 1}, "task.yaml:2", "task.yaml:3")


def test_merged_mapping_keeps_its_values(read):
    assert read(task="a: &x {b: 1, c: 1}\nd:\n  <<: *x\n  c: 2\n").data["d"] == {"b": 1, "c": 2}


def test_path_is_shown_relative_to_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [display(tmp_path / "a.yaml"), display(Path("/elsewhere/a.yaml"))] == ["a.yaml", "/elsewhere/a.yaml"]


def test_source_without_positions_names_the_first_line(tmp_path):
    assert Source(tmp_path / "a.yaml").at("x") == FilePosition(tmp_path / "a.yaml", 1)


# !function


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Reads a task file and calls the function that its key `f` names."""
    monkeypatch.chdir(tmp_path)

    def read_and_call(reference: str = "utils.f", file: str = "task.yaml") -> Any:
        if not (tmp_path / file).exists():
            (tmp_path / file).write_text(f"f: !function {reference}\n")
        return resolve_functions(read_yaml(tmp_path / file).data)["f"]()

    return read_and_call


def test_function_is_found_beside_the_file(call, tmp_path):
    (tmp_path / "utils.py").write_text("def f(): return 'beside'\n")
    assert call() == "beside"


def test_function_is_found_in_a_folder_below(call, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "more.py").write_text("def f(): return 'below'\n")
    assert call("lib.more.f") == "below"


def test_function_of_an_included_file_is_found_beside_that_file(call, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "base.yaml").write_text("f: !function utils.f\n")
    (tmp_path / "sub" / "utils.py").write_text("def f(): return 'sub'\n")
    (tmp_path / "utils.py").write_text("def f(): return 'top'\n")
    (tmp_path / "task.yaml").write_text("include: sub/base.yaml\n")
    assert call() == "sub"


def test_function_is_found_in_an_installed_module(call):
    assert call("os.getpid") == os.getpid()


def test_file_beside_wins_over_an_installed_module(call, tmp_path):
    (tmp_path / "os.py").write_text("def getpid(): return 'mine'\n")
    assert call("os.getpid") == "mine"


def test_changed_file_is_loaded_anew_even_within_a_second(call, tmp_path):
    answers = []
    for number in range(5):
        (tmp_path / "utils.py").write_text(f"def f(): return {number}\n")
        os.utime(tmp_path / "utils.py", (1_000_000_000, 1_000_000_000))
        answers.append(call())
    assert answers == [0, 1, 2, 3, 4]


def test_unchanged_file_is_loaded_once(call, tmp_path):
    (tmp_path / "utils.py").write_text("calls = []\n\n\ndef f():\n    calls.append(1)\n    return len(calls)\n")
    assert [call(), call()] == [1, 2]


def test_two_files_of_one_name_are_two_modules(tmp_path):
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "utils.py").write_text(f"def f(): return {name!r}\n")
        (tmp_path / name / "task.yaml").write_text("f: !function utils.f\n")
        made.append(resolve_functions(read_yaml(tmp_path / name / "task.yaml").data)["f"])
    assert [f() for f in made] == ["a", "b"]


def test_nothing_is_written_beside_the_task(call, tmp_path):
    (tmp_path / "utils.py").write_text("def f(): return 1\n")
    call()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["task.yaml", "utils.py"]


def test_module_that_failed_is_tried_again(call, tmp_path):
    (tmp_path / "utils.py").write_text(
        "import os\nif not os.path.exists('ready'): raise RuntimeError('not ready')\nf = str\n"
    )
    with pytest.raises(ConfigError, match="not ready"):
        call()
    (tmp_path / "ready").touch()
    assert call() == ""


def test_no_code_runs_while_a_file_is_read(read):
    read(task="f: !function no.such\n")
    assert "no" not in sys.modules


def test_functions_in_lists_and_mappings_are_found(read, tmp_path):
    (tmp_path / "utils.py").write_text("def f(): return 1\n")
    data = resolve_functions(read(task="a: [{b: !function utils.f}, 2]\n").data)
    assert (data["a"][0]["b"](), data["a"][1]) == (1, 2)


# What is wrong


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: 1\nb:\n\tc: 1\n", 3, "a tab stands where only spaces may; indent with spaces"),
        ("\ta: 1\n", 1, "a tab stands where only spaces may; indent with spaces"),
        ("a: 'b\nc: d\n", 1, "the quote that opens here is not closed; add the closing quote"),
        ('a: 1\nb: "c\n', 2, "the quote that opens here is not closed; add the closing quote"),
        ("a: 'it's'\n", 1, "the line does not fit the lines above it; check its indentation and quotes"),
        ("a:\n   b: 1\n  c: 2\n", 3, "the line does not fit the lines above it; check its indentation and quotes"),
        ("- a\nb: 1\n", 2, "the line does not fit the lines above it; check its indentation and quotes"),
        ("a: |\n  b\nc\n\n\n", 3, "the line does not fit the lines above it; check its indentation and quotes"),
        ("a: [1, 2\nb: 3\n", 1, "the bracket that opens here is not closed, or a comma is missing"),
        ("a: b: c\n", 1, "': ' is not expected here; check the indentation, and quote a value that holds ': '"),
        ("a: {{b}}\n", 1, "a value that begins with '{{' is read as a mapping; put the template in quotes"),
        ("a: [{{b}}]\n", 1, "a value that begins with '{{' is read as a mapping; put the template in quotes"),
        ("a: {{b}} and\n", 1, "put the value in quotes"),
        ("a: {% if b %}\n", 1, "a template without quotes; put the value in quotes"),
        ("a: %b\n", 1, "a value cannot begin with '%'; put the value in quotes"),
        ("a: @b\n", 1, "a value cannot begin with '@'; put the value in quotes"),
        ("a: 1\n---\nb: 1\n", 2, "a second document begins here; keep one document in a file"),
        ("a: !b c\n", 1, "unknown tag '!b'; the only tag is !function module.name"),
        ("a: &a {b: *a}\n", 1, "recursive"),
        ("a: x\x07y\n", 1, "it holds the control character U+0007; remove it"),
    ],
)
def test_broken_yaml_is_explained(read, text, line, says):
    with pytest.raises(ConfigError) as raised:
        read(task=text)
    assert str(raised.value).startswith(f"task.yaml:{line}: not valid YAML: ")
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: 2024-13-45\n", 2),
        ("a:\n  - x\n  - !!int y\n", 3),
        ("a: {b: !!timestamp z}\n", 1),
        ("a: 1\nb: !!bool maybe\n", 2),
        ("a: 1\nb: !!int ''\n", 2),
    ],
)
def test_value_that_cannot_be_read_has_its_line(read, text, line):
    with pytest.raises(ConfigError, match=f"task.yaml:{line}: a value cannot be read"):
        read(task=text)


def test_byte_order_mark_is_no_part_of_the_first_key(read):
    assert read(task="\ufeffa: 1\n").data == {"a": 1}


def test_aliases_that_stand_for_billions_of_values_are_refused(read):
    levels = "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]\n" for i in range(1, 30))
    with pytest.raises(ConfigError, match=r"task\.yaml:1: aliases repeat more than 200,000 values"):
        read(task=f"l0: &l0 [x]\n{levels}")


def test_a_few_repeated_aliases_are_read(read):
    levels = "".join(f"l{i}: &l{i} [*l{i - 1}, *l{i - 1}]\n" for i in range(1, 12))
    assert len(read(task=f"l0: &l0 [x]\n{levels}").data) == 12


def test_a_file_that_is_included_twice_is_read_once(read, monkeypatch):
    files = {f"f{i}": f"include: [f{i + 1}.yaml, f{i + 1}.yaml]\n" for i in range(26)}
    assert read(task="include: f0.yaml\n", **files, f26="a: 1\n").data == {"a": 1}
