"""Data files of strangers: whatever they are, there is one message, and nothing hangs, runs or fills the memory."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.bounded import COMMAND, check, lay_out, outcomes

TASK = """task: t
test_split: test
output_type: multiple_choice
doc_to_text: question
doc_to_choice: choices
doc_to_target: answer
"""
ROW = json.dumps({"question": "Why?", "choices": ["a", "b"], "answer": 0}) + "\n"
CSV = "question,choices,answer\nWhy?,\"['a', 'b']\",0\n"
PICKLE = b"cos\nsystem\n(S'touch executed'\ntR."
PIPE, ZERO = ("pipe",), ("link", "/dev/zero")


def parquet(column: Any, **options: Any) -> Any:
    """A function that writes a Parquet file with a column that Python may not be able to hold."""

    def write(path):
        import pyarrow as pa
        import pyarrow.parquet as pq

        arrays = {"question": ["Why?"], "choices": [["a", "b"]], "answer": [0]}
        pq.write_table(pa.table({**arrays, "extra": column(pa)}), path, **options)

    return write


def stamp(value: int, unit: str, zone: str | None = None) -> Any:
    return parquet(lambda pa: pa.array([value], pa.timestamp(unit, tz=zone)))


def many_rows(path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, pa.schema([("answer", pa.int8())])) as writer:
        part = pa.table({"answer": pa.array([0] * 4_000_000, pa.int8())})
        for _ in range(3):
            writer.write_table(part)


def zeros(size: int) -> Any:
    """A function that writes a file of this size, which takes no place on the disk."""

    def write(path):
        path.touch()
        os.truncate(path, size)

    return write


def named(name: str, content: Any) -> tuple[str, dict[str, Any]]:
    return f"dataset_path: {name}\n", {name: content}


def with_kwargs(path: str, kwargs: str, **files: Any) -> tuple[str, dict[str, Any]]:
    table = {name.replace("__", "."): content for name, content in files.items()}
    return f"dataset_path: {path}\ndataset_kwargs: {kwargs}\n", table


def folder(**files: Any) -> tuple[str, dict[str, Any]]:
    return "dataset_path: data\n", {f"data/{name.replace('__', '.')}": content for name, content in files.items()}


#: Each with a part of its message.
REFUSED: dict[str, tuple[tuple[str, dict[str, Any]], str]] = {
    "pipe": (named("rows.jsonl", PIPE), "rows.jsonl"),
    "device": (named("rows.jsonl", ZERO), "rows.jsonl"),
    "pipe, by its path": (("dataset_path: ./rows.csv\n", {"rows.csv": PIPE}), "rows.csv"),
    "device, by its path": (("dataset_path: /dev/zero\n", {}), "/dev/zero"),
    "link to itself": (named("rows.jsonl", ("link", "rows.jsonl")), "rows.jsonl"),
    "link to nowhere": (named("rows.jsonl", ("link", "nowhere")), "rows.jsonl"),
    "pipe in a folder": (folder(test__jsonl=PIPE), "a pipe or device"),
    "device in a folder": (folder(test__jsonl=ZERO), "a pipe or device"),
    "device in a folder, as JSON": (folder(test__json=ZERO), "a pipe or device"),
    "device in a folder, as CSV": (folder(test__csv=ZERO), "a pipe or device"),
    "device in a folder, as TSV": (folder(test__tsv=ZERO), "a pipe or device"),
    "device in a folder, as Parquet": (folder(test__parquet=ZERO), "a pipe or device"),
    "pipe in a folder, as Parquet": (folder(test__parquet=PIPE), "a pipe or device"),
    "random numbers": (folder(test__jsonl=("link", "/dev/urandom")), "a pipe or device"),
    "terminal": (folder(test__jsonl=("link", "/dev/tty")), "test.jsonl"),
    "file of the system": (folder(test__jsonl=("link", "/proc/self/environ")), "no documents"),
    "messages of the system": (folder(test__jsonl=("link", "/proc/kmsg")), ""),
    "folder as a file": (folder(**{"test__jsonl/x": ""}), "directory"),
    "link to itself in a folder": (folder(test__jsonl=("link", "test.jsonl")), "cannot be read"),
    "pipe of data_files": (with_kwargs("json", "{data_files: r.jsonl}", r__jsonl=PIPE), "pipe"),
    "device of data_files": (with_kwargs("json", "{data_files: r.jsonl}", r__jsonl=ZERO), "device"),
    "device of data_files, as CSV": (with_kwargs("csv", "{data_files: r.csv}", r__csv=ZERO), "device"),
    "device by a pattern": (with_kwargs("csv", "{data_files: '*.csv'}", r__csv=ZERO), "no data file"),
    "pipe by a pattern": (with_kwargs("text", "{data_files: '*.txt'}", r__txt=PIPE), "no data file"),
    "pipe as an archive": (with_kwargs("csv", "{data_files: 'zip://r.csv::r.zip'}", r__zip=PIPE), "pipe"),
    "device as an archive": (with_kwargs("csv", "{data_files: 'gzip://::file:///dev/zero'}"), "device"),
    "line without end": (named("rows.jsonl", zeros(10**10)), "a line of more than"),
    "file without end": (named("rows.jsonl", zeros(10**12)), "too large"),
    "JSON without end": (named("rows.json", zeros(10**12)), "too large"),
    "CSV without end": (folder(test__csv=zeros(10**10)), "too large"),
    "Parquet without end": (named("rows.parquet", zeros(10**12)), "too large"),
    "pickle": (with_kwargs("pandas", "{data_files: r.pkl}", r__pkl=PICKLE), "more than to read data"),
    "pickle in a folder": (("dataset_path: pandas\ndataset_kwargs: {data_dir: data}\n", {"data/r.pkl": PICKLE}), ""),
    "query": (with_kwargs("sql", "{sql: select 1, con: 'sqlite:///x'}"), "more than to read data"),
    "generator": (with_kwargs("generator", "{}"), "more than to read data"),
    "pickle as Parquet": (named("rows.parquet", PICKLE), "not a Parquet file"),
    "pickle as Arrow": (with_kwargs("arrow", "{data_files: r.arrow}", r__arrow=PICKLE), "cannot read"),
    "slow separator": (
        with_kwargs("csv", "{data_files: r.csv, sep: '(a+)+$', engine: python}", r__csv="a" * 50 + "b\n" + CSV),
        "may take for ever",
    ),
    "slow delimiter": (with_kwargs("csv", "{data_files: r.csv, delimiter: 'a*a*a*b'}", r__csv=CSV), "for ever"),
    "separator that repeats a class": (with_kwargs("csv", "{data_files: r.csv, sep: '[ab]*c'}", r__csv=CSV), "ever"),
    "slow separator of a folder": (
        ("dataset_path: csv\ndataset_kwargs: {data_dir: data, sep: '(a+)+$'}\n", {"data/test.csv": CSV}), "for ever",
    ),
    "device of data_dir": (("dataset_path: csv\ndataset_kwargs: {data_dir: data}\n", {"data/test.csv": ZERO}), ""),
    "pipe of data_dir": (("dataset_path: csv\ndataset_kwargs: {data_dir: data}\n", {"data/test.csv": PIPE}), ""),
    "device in a repository": (
        ("dataset_path: data\n", {"data/README.md": "# Data", "data/data/test.csv": ZERO}), "",
    ),
    "separator of a folder": (
        ("dataset_path: data\ndataset_kwargs: {sep: '(a|a)*$'}\n", {"data/test.csv": CSV}), "one character",
    ),
    "seconds after the year 9999": (named("rows.parquet", stamp(10**12, "s")), "the column 'extra'"),
    "milliseconds before the year 1": (named("rows.parquet", stamp(-(10**17), "ms")), "the column 'extra'"),
    "microseconds out of range": (named("rows.parquet", stamp(2**62, "us")), "the column 'extra'"),
    "date out of range": (
        named("rows.parquet", parquet(lambda pa: pa.array([2**30], pa.int32()).cast(pa.date32()))), "'extra'",
    ),
    "unknown time zone": (named("rows.parquet", stamp(0, "us", "Mars/Olympus")), "the column 'extra'"),
    "time zone upwards": (named("rows.parquet", stamp(0, "us", "../../etc/passwd")), "the column 'extra'"),
    "duration out of range": (
        named("rows.parquet", parquet(lambda pa: pa.array([2**62], pa.duration("s")))), "the column 'extra'",
    ),
    "too many rows": (named("rows.parquet", many_rows), "10,000,000 are allowed"),
    "cut Parquet": (named("rows.parquet", b"PAR1" + b"\0" * 100 + b"PAR1"), "not a Parquet file"),
    "Parquet with a long footer": (named("rows.parquet", b"PAR1" + b"\xff\xff\xff\x7fPAR1"), "not a Parquet file"),
    "empty Parquet": (named("rows.parquet", b""), "not a Parquet file"),
    "wrong pattern": (with_kwargs("json", "{data_files: '**x.jsonl'}", r__jsonl=ROW), ""),
    "wrong pattern of two stars": (with_kwargs("json", "{data_files: 'a**/b'}", r__jsonl=ROW), ""),
    "open bracket": (with_kwargs("json", "{data_files: '[a.jsonl'}", r__jsonl=ROW), "no data file"),
    "open range": (with_kwargs("json", "{data_files: '[z-a].jsonl'}", r__jsonl=ROW), ""),
    "whole disk": (with_kwargs("json", "{data_files: '/**/*.jsonl'}"), "searches the whole disk"),
    "null character in a name": (with_kwargs("json", '{data_files: "a\\0b"}'), "no data file"),
    "long name": (with_kwargs("json", "{data_files: " + "x" * 5000 + "}"), "no data file"),
    "deep JSON": (named("rows.jsonl", "[" * 100_000), "not valid JSON"),
    "deep JSON in a list": (named("rows.json", "[" * 100_000 + "]" * 100_000), "not valid JSON"),
    "number of 10,000 digits": (named("rows.jsonl", '{"question": ' + "9" * 10_000 + "}"), "not valid JSON"),
    "not UTF-8": (named("rows.jsonl", b'{"question": "\xff"}'), "not UTF-8"),
    "UTF-16": (named("rows.jsonl", ROW.encode("utf-16")), "not UTF-8"),
    "UTF-16 as CSV": (named("rows.csv", CSV.encode("utf-16")), "not UTF-8"),
    "null character in CSV": (named("rows.csv", "a,b\n\0,1\n"), ""),
    "open quote in CSV": (named("rows.csv", 'a,b\n"' + "x" * 100_000), "not valid CSV"),
    "column twice": (named("rows.csv", "a,a\n1,2\n"), "there twice"),
    "lists instead of rows": (named("rows.jsonl", "[1]\n" * 10), "expected an object"),
    "field of another kind": (with_kwargs("json", "{data_files: r.json, field: a}", r__json='{"a": 5}'), ""),
    "recursive XML": (
        with_kwargs("xml", "{data_files: r.xml}", r__xml='<!DOCTYPE a [<!ENTITY b "&c;&c;"><!ENTITY c "x">]>&b;'),
        "",
    ),
}  # fmt: skip
#: Each is read, as it is right.
READ: dict[str, tuple[str, dict[str, Any]]] = {
    "pipe beside the data": folder(test__jsonl=ROW, train__jsonl=PIPE),
    "device beside the data": folder(test__jsonl=ROW, train__csv=ZERO),
    "dates in milliseconds": named("rows.parquet", parquet(lambda pa: pa.array([86_400_000], pa.date64()))),
    "byte order mark": named("rows.jsonl", "\ufeff" + ROW),
    "time zone": named("rows.parquet", stamp(0, "us", "Europe/Berlin")),
    "pattern": with_kwargs("json", "{data_files: '*.jsonl'}", r__jsonl=ROW),
    "separator of white space": with_kwargs(
        "csv", r"{data_files: r.csv, sep: '\s+'}", r__csv="question choices answer\n?  ['a','b'] 0"
    ),
    "separator of a text": with_kwargs(
        "csv", "{data_files: r.csv, sep: '::', engine: python}", r__csv="question::choices::answer\n?::['a']::0"
    ),
}  # fmt: skip

ATTACKS = {name: (attack, 2, says) for name, (attack, says) in REFUSED.items()}
ATTACKS |= {name: (attack, 0, "") for name, attack in READ.items()}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    cases = {}
    for number, (name, ((keys, files), _, _)) in enumerate(ATTACKS.items()):
        place = tmp_path_factory.mktemp(f"data{number}")
        lay_out({"task.yaml": TASK + keys, **files}, place)
        cases[name] = {"folder": str(place), "argv": "validate task.yaml --no_code"}
    return outcomes(COMMAND, cases, tmp_path_factory.mktemp("outcomes"))


def test_there_are_as_many_files_as_were_tried():
    assert len(ATTACKS) >= 61


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize("name", ATTACKS)
def test_a_data_file_gives_its_rows_or_one_message(name, results):
    _, code, says = ATTACKS[name]
    check(results.get(name), code, says)
