"""What is kept of an index, and what is read again when files change."""

from __future__ import annotations

import logging
import os
import time
import zlib
from pathlib import Path

import pytest

from multiform.paths import open_file
from multiform.tasks.folders import ABSENT, UNSURE, safe_stamp, stamp_of
from multiform.tasks.index import build_index

NAMES = {f"t{number:02}" for number in range(60)}
LATER = time.time_ns() - 10**11


def test_an_index_that_is_up_to_date_is_used_without_reading_a_task_file(tasks):
    assert set(tasks.index().names("task")) == NAMES
    assert tasks.read == []


def test_only_a_file_that_changed_is_read_again(tasks):
    tasks.write("suite/t07.yaml", "task: seven\n", LATER)
    assert set(tasks.index().names("task")) == NAMES - {"t07"} | {"seven"}
    assert tasks.read == ["suite/t07.yaml"]
    tasks.index()
    assert tasks.read == []


def test_only_a_file_that_is_new_is_read(tasks):
    tasks.write("other/new.yaml", "task: new\n")
    assert set(tasks.index().names("task")) == NAMES | {"new"}
    assert tasks.read == ["other/new.yaml"]


def test_a_file_that_is_gone_defines_nothing(tasks):
    (tasks.path / "suite" / "t07.yaml").unlink()
    assert set(tasks.index().names("task")) == NAMES - {"t07"}
    assert tasks.read == []


def test_a_file_of_the_same_time_and_another_size_is_read_again(tasks):
    file = tasks.path / "suite" / "t07.yaml"
    tasks.write("suite/t07.yaml", "task: a_longer_name\ndataset_path: rows.jsonl\n", file.stat().st_mtime_ns)
    assert "a_longer_name" in tasks.index().entries


def test_a_file_of_the_same_size_and_another_time_is_read_again(tasks):
    tasks.write("suite/t07.yaml", "include: ../common_yaml\ntask: x07\n", LATER)
    assert "x07" in tasks.index().entries


def test_a_file_that_was_written_just_now_is_not_trusted_to_stay_so(tasks):
    now = time.time_ns()
    tasks.write("suite/t07.yaml", "task: one\n", now)
    assert "one" in tasks.index().entries
    tasks.write("suite/t07.yaml", "task: two\n", now)  # the same size and, by a coarse clock, the same time
    assert "two" in tasks.index().entries


def test_files_that_are_read_long_after_they_were_written_keep_their_stamps():
    second = 10**9
    assert safe_stamp((5, 10 * second), 20 * second, 30 * second) == (5, 10 * second)
    assert safe_stamp((5, 25 * second), 20 * second, 30 * second) == UNSURE
    assert safe_stamp((5, 40 * second), 20 * second, 30 * second) == (5, 40 * second)  # a clock that is ahead
    assert safe_stamp(ABSENT, 20 * second, 30 * second) == ABSENT


def test_a_name_that_no_file_can_have_is_absent():
    assert stamp_of("a\0b") == stamp_of("/no/such/file") == ABSENT


def test_a_change_of_an_included_file_refreshes_what_includes_it(tasks):
    assert list(tasks.index().tags) == ["first"]
    tasks.write("suite/alone.yaml", "task: alone\n")
    tasks.index()
    tasks.write("common_yaml", "tag: second\n", LATER)
    assert tasks.index().tags == {"second": sorted(NAMES)}
    assert "suite/alone.yaml" not in tasks.read
    assert len(tasks.read) == 60


def test_files_are_refreshed_through_includes_of_includes(tasks):
    tasks.write("suite/base_yaml", "tag: old\n")
    tasks.write("common_yaml", "include: suite/base_yaml\n", LATER)
    assert list(tasks.index().tags) == ["old"]
    tasks.write("suite/base_yaml", "tag: new\n", LATER)
    assert list(tasks.index().tags) == ["new"]


def test_an_included_file_outside_of_the_folder_is_watched_as_well(tasks):
    tasks.write("../outside.yaml", "task: inherited\n")
    tasks.write("suite/heir.yaml", f"include: {tasks.path.parent}/outside.yaml\n")
    assert "inherited" in tasks.index().entries
    tasks.write("../outside.yaml", "task: renamed\n", LATER)
    index = tasks.index()
    assert "renamed" in index.entries
    assert "inherited" not in index.entries


def test_an_included_file_that_appears_makes_a_broken_file_whole(tasks):
    tasks.write("suite/heir.yaml", "include: missing_yaml\ntask: heir\n")
    assert "no file 'missing_yaml'" in str(tasks.index().broken[tasks.path / "suite" / "heir.yaml"])
    tasks.write("suite/missing_yaml", "tag: found\n")
    index = tasks.index()
    assert not index.broken
    assert index.tags["found"] == ["heir"]


def test_an_included_file_that_disappears_breaks_those_that_include_it(tasks):
    (tasks.path / "common_yaml").unlink()
    assert len(tasks.index().broken) == 60


def test_an_included_link_that_points_elsewhere_is_followed(tasks):
    tasks.write("a_yaml", "tag: one\n")
    tasks.write("b_yaml", "tag: three\n")
    link = tasks.path / "link_yaml"
    link.symlink_to("a_yaml")
    tasks.write("suite/heir.yaml", "include: ../link_yaml\ntask: heir\n")
    assert "one" in tasks.index().tags
    link.unlink()
    link.symlink_to("b_yaml")
    assert "three" in tasks.index().tags


def test_a_broken_file_is_reported_with_its_line_each_time(tasks, monkeypatch):
    tasks.write("suite/broken.yaml", "task: broken\n\ttag: a\n")
    first = tasks.index().broken
    assert [path.name for path in first] == ["broken.yaml"]
    assert f"{tasks.path}/suite/broken.yaml:2: not valid YAML: a tab" in str(*first.values())
    again = tasks.index().broken
    assert tasks.read == ["suite/broken.yaml"]
    assert [str(error) for error in again.values()] == [str(error) for error in first.values()]
    monkeypatch.chdir(tasks.path)
    assert str(*tasks.index().broken.values()).startswith("suite/broken.yaml:2: not valid YAML")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: 5\n", "task: expected a name, got 5"),
        ("task: a\ngroup: [b, c]\n", "group: expected a name, got ['b', 'c']; write tag: ['b', 'c'] for"),
        ("task: a\ntag: {b: c}\n", "tag: expected a tag or a list of them"),
        ("task: a\ndoc_to_text: !function nothing\n", "!function expects module.name"),
        ("task: a\ndate: 2024-13-45\n", "a value cannot be read"),
        ("task: a\ndoc_to_text: {{question}}\n", "is read as a mapping"),
        ("task: a\ninclude: 5\n", "include: expected a file name"),
        ("task: a\ninclude: broken.yaml\n", "include cycle"),
        ("- task: a\n", "expected a mapping of task fields, got a list"),
        ("", "got an empty file"),
        (b"task: \xff\n", "not UTF-8"),
    ],
)
def test_whatever_is_wrong_with_a_file_is_said_in_full_each_time(tasks, text, message):
    tasks.write("broken.yaml", text)
    for _ in range(2):
        (error,) = tasks.index().broken.values()
        assert message in str(error)
        assert "broken.yaml" in str(error)
    assert tasks.read == ["broken.yaml"]


@pytest.mark.parametrize("name", ["suite/t07.yaml", "common_yaml"])
def test_a_file_that_may_not_be_read_is_tried_again(tasks, name, monkeypatch):
    file = tasks.write(name, "tag: x\ntask: mine\n", LATER)

    def refused(path, read=open_file):
        if path == file:
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    with monkeypatch.context() as patch:
        patch.setattr("multiform.tasks.yaml.open_file", refused)
        assert f"{name}: cannot be read: Permission denied" in str(*{str(e) for e in tasks.index().broken.values()})
    assert not tasks.index().broken


def test_a_fault_of_an_included_file_is_reported_until_it_is_mended(tasks):
    tasks.write("common_yaml", "tag: [open\n", LATER)
    errors = {str(error) for error in tasks.index().broken.values()}
    assert len(errors) == 1
    assert "common_yaml:" in errors.pop()
    tasks.write("common_yaml", "tag: mended\n", LATER)
    assert not tasks.index().broken


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other", "older", "shape", "folder"])
def test_a_damaged_or_older_index_is_made_anew_without_a_word(tasks, cache, damage, caplog):
    (file,) = cache.iterdir()
    content = file.read_bytes()
    if damage == "folder":
        file.unlink()
        file.mkdir()
    else:
        file.write_bytes(
            {
                "cut": content[: len(content) // 2],
                "flipped": content.replace(b"t07", b"t70"),
                "empty": b"",
                "other": b"\xff\xfe",
                "older": content.replace(b"index 5", b"index 4", 1),
                "shape": b"multiform task index 5 %08x\n[]" % zlib.crc32(b"[]"),
            }[damage]
        )
    assert set(tasks.index().names("task")) == NAMES
    assert len(tasks.read) == 60
    if damage != "folder":  # which cannot be replaced by a file
        assert caplog.records == []
        tasks.index()
        assert tasks.read == []


def test_a_cache_that_cannot_be_written_costs_one_warning_and_no_names(tasks, cache, tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MULTIFORM_CACHE", str(tmp_path / "file"))
    for _ in range(2):
        assert set(tasks.index().names("task")) == NAMES
    (record,) = caplog.records
    assert record.getMessage().startswith("the index of task files cannot be cached: ")
    assert record.getMessage().endswith("set MULTIFORM_CACHE to a folder of yours")


def test_a_task_folder_that_is_read_only_is_only_read(tasks):
    before = {path: path.stat().st_mtime_ns for path in [tasks.path, *tasks.path.rglob("*")]}
    tasks.write("suite/t07.yaml", "task: seven\n", LATER)
    before[tasks.path / "suite" / "t07.yaml"] = LATER
    for folder in (tasks.path / "suite", tasks.path):
        folder.chmod(0o555)
    try:
        assert "seven" in tasks.index().entries
        assert {path: path.stat().st_mtime_ns for path in [tasks.path, *tasks.path.rglob("*")]} == before
    finally:
        for folder in (tasks.path, tasks.path / "suite"):
            folder.chmod(0o755)


def test_links_that_go_round_in_circles_are_not_followed(tasks):
    (tasks.path / "suite" / "again").symlink_to(tasks.path, target_is_directory=True)
    (tasks.path / "self.yaml").symlink_to("self.yaml")
    assert set(tasks.index().names("task")) == NAMES


def test_a_linked_file_is_a_task_and_includes_what_is_beside_the_real_one(tasks):
    tasks.write("../elsewhere/real.yaml", "include: beside_yaml\ntask: linked\n")
    tasks.write("../elsewhere/beside_yaml", "tag: beside\n")
    (tasks.path / "link.yaml").symlink_to("../elsewhere/real.yaml")
    assert tasks.index().tags["beside"] == ["linked"]


def test_a_file_name_that_is_not_utf8_is_a_name_like_any_other(tasks):
    tasks.write(b"caf\xe9/\xff.yaml", "task: latin\n")
    for _ in range(2):
        path = tasks.index().entries["latin"].path
        assert os.fsencode(path).endswith(b"/caf\xe9/\xff.yaml")
        assert path.is_file()
    assert tasks.read == []


def test_a_folder_is_known_by_every_path_that_leads_to_it(tasks, monkeypatch):
    (tasks.path.parent / "link").symlink_to(tasks.path)
    monkeypatch.chdir(tasks.path.parent)
    for path in (Path("tasks"), Path("link"), Path("cache/../tasks")):
        tasks.read.clear()
        assert build_index([path]).entries["t07"].path == path / "suite" / "t07.yaml"
        assert tasks.read == []


def test_a_small_folder_is_read_each_time(tasks, cache):
    small = tasks.path.parent / "small"
    tasks.write("../small/a.yaml", "task: a\n")
    for _ in range(2):
        tasks.read.clear()
        assert build_index([small]).names("task") == ["a"]
        assert len(tasks.read) == 1
    assert len(list(cache.iterdir())) == 1


def test_a_few_names_that_are_defined_twice_are_all_reported(tasks, caplog):
    for number in range(10):
        tasks.write(f"twice/{number}.yaml", f"task: t{number:02}\n")
    assert tasks.index().entries["t00"].file == "suite/t00.yaml"
    assert len(caplog.records) == 10
    assert f"task 't00' is defined twice: {tasks.path}/suite/t00.yaml is used" in caplog.text


def test_of_many_names_that_are_defined_twice_the_first_are_reported(tasks, caplog):
    for number in range(30):
        tasks.write(f"twice/{number}.yaml", f"task: t{number:02}\n")
    with caplog.at_level(logging.WARNING):
        tasks.index()
    assert len(caplog.records) == 6
    assert caplog.messages[-1] == "and 25 more of this kind: --verbosity DEBUG shows them"
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "multiform"):
        tasks.index()
    assert len(caplog.records) == 31


def test_of_many_names_that_another_folder_replaces_the_first_are_reported(tasks, caplog):
    for number in range(30):
        tasks.write(f"../before/{number}.yaml", f"task: t{number:02}\n")
    assert tasks.index(tasks.path.parent / "before").entries["t00"].folder == tasks.path
    assert len(caplog.records) == 6
