"""Files are written beside their place and renamed: a full disk or a kill leaves no file that is cut or alone."""

from __future__ import annotations

import ast
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import multiform
from multiform import MultiformError, Results, evaluate
from multiform.cli.main import main
from multiform.paths import replace_file
from multiform.report import write_report
from multiform.results.drawing import save_chart
from multiform.results.export import write_parquet


@pytest.fixture(scope="module")
def results() -> Results:
    return evaluate(model="dummy", tasks="quiz@mcqa+cloze", limit=30, progress=False, use_cache=False)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of 240 responses, as the default one; without SQLite's log, which would be a file beside it."""
    path = tmp_path / "elsewhere" / "store.db"
    monkeypatch.setenv("MULTIFORM_STORE", str(path))
    evaluate(model="dummy", tasks="quiz@mcqa", limit=60, progress=False, use_cache=path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")


def save_run(results: Results, path: Path) -> None:
    results.save(path.parent / "run", samples=True)


def export_store(results: Results, path: Path) -> None:
    if main(["store", "export", "--output", str(path)]):
        raise MultiformError("the export failed")


def save_picture(results: Results, path: Path) -> None:
    pytest.importorskip("altair")
    save_chart(results, "scores", path)


#: The writers of what a user asks for, each with more to write than the disk has room for.
WRITERS: dict[str, tuple[str, Callable[[Results, Path], object]]] = {
    "results and samples": ("unused", save_run),
    "report": ("report.html", lambda results, path: write_report([results], path)),
    "parquet": ("samples.parquet", lambda results, path: write_parquet(results.forms, path)),
    "chart": ("scores.html", save_picture),
    "store export": ("responses.jsonl", export_store),
}


@contextmanager
def small_files() -> Iterator[None]:
    """Let no file grow beyond 4 kB, as on a disk that is nearly full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_that_cannot_grow_leaves_what_was_there(kind, results, tmp_path, capsys):
    name, write = WRITERS[kind]
    path = tmp_path / "out" / name
    path.parent.mkdir()
    path.write_text("as it was")
    with pytest.raises(MultiformError) as caught, small_files():
        write(results, path)
    assert "File too large" in f"{caught.value} {capsys.readouterr().err}"
    assert path.read_text() == "as it was"
    assert [file for file in path.parent.rglob("*") if file.is_file()] == [path]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system with room for 64 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only an administrator can mount a small file system")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.process
@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("kind", WRITERS)
def test_a_full_disk_leaves_no_part_of_a_file(kind, results, small_disk, capsys):
    (small_disk / "ballast").write_bytes(bytes(60_000))
    name, write = WRITERS[kind]
    with pytest.raises(MultiformError) as caught:
        write(results, small_disk / name)
    assert "No space left on device" in f"{caught.value} {capsys.readouterr().err}"
    assert [file.name for file in small_disk.rglob("*") if file.is_file()] == ["ballast"]


def test_results_are_never_seen_without_their_samples(results, tmp_path, monkeypatch):
    """Whenever a file gets its name, a results file is there only if all samples files are: a kill can come then."""
    seen: list[list[str]] = []
    rename = Path.replace

    def replace(self: Path, target: Path) -> Path:
        seen.append(sorted(file.name[:7] for file in tmp_path.rglob("*") if not file.name.startswith(".partial")))
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    results.save(tmp_path, samples=True)
    assert len(seen) == 3
    assert not [names for names in seen if "results" in names]


CHILD = """
import sys, time
from pathlib import Path
from multiform.paths import replace_file
with replace_file(Path(sys.argv[1])) as file, file.open("w") as text:
    text.write("new" * 100_000)
    text.flush()
    print("half", flush=True)
    time.sleep(60)
"""


@pytest.mark.process
def test_a_kill_in_the_middle_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    child = subprocess.Popen([sys.executable, "-c", CHILD, path], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert path.read_text() == "old"


def test_links_and_permissions_stay(tmp_path):
    path, link = tmp_path / "file.txt", tmp_path / "link.txt"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    with replace_file(link) as file:
        file.write_text("new")
    assert link.is_symlink()
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)


def test_a_pipe_is_written_directly(tmp_path):
    reading, writing = os.pipe()
    with replace_file(Path(f"/dev/fd/{writing}")) as file:
        file.write_text("whole")
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "whole"


#: Functions that write in another way, and may.
OTHERS = {
    "cli/main.py": ["_open_closed_streams"],  # /dev/null
    "prompts/media.py": ["encode_wav"],  # in memory
    "models/hf/model.py": ["convert_gguf"],  # into a folder that is renamed
    "results/export.py": ["prepare_output"],  # an empty file, to see whether one can be written
    "results/samples.py": ["write_costs"],  # a log that grows line by line
    "run/journal.py": ["_open_files"],  # a log that grows line by line
}


def unguarded_writes(source: Path) -> Iterator[str]:
    """Where a module opens a file to write it outside of `replace_file` and its kind."""
    text = source.read_text(encoding="utf-8")
    if not re.search(r"write_|open\(|save_", text):
        return
    tree = ast.parse(text)
    guarded = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.With) and any("replace_" in ast.unparse(item.context_expr) for item in node.items)
        for inner in ast.walk(node)
    }
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call) and node not in guarded):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            modes = [value.value for value in [*call.args, *(key.value for key in call.keywords)]
                     if isinstance(value, ast.Constant) and isinstance(value.value, str)]  # fmt: skip
            writes = name in ("write_text", "write_bytes", "write_table", "save_pretrained")
            if writes or (name == "open" and any(mode[:1] in "wxa" for mode in modes if 0 < len(mode) < 4)):
                yield function.name


def test_every_file_is_written_by_one_function():
    package = Path(multiform.__file__).parent
    found = {}
    for source in sorted(package.rglob("*.py")):
        if names := sorted(set(unguarded_writes(source))):
            found[source.relative_to(package).as_posix()] = names
    assert found == OTHERS
