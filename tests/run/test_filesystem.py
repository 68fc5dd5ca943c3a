"""A store on a network file system is refused, as SQLite is not safe there."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiform.errors import UsageError
from multiform.run import store as store_module
from multiform.run.database import check_local, filesystem
from multiform.run.store import chosen_store


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    """A machine whose home folders are on NFS, with a local disk below them and a folder by ssh."""
    file = tmp_path / "mounts"
    lines = [
        "/dev/sda1 / ext4 rw 0 0",
        r"server:/home /home\040of\040all nfs4 rw 0 0",
        r"/dev/sdb1 /home\040of\040all/me/scratch xfs rw 0 0",
        "me@host: /remote fuse.sshfs rw 0 0",
    ]
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/answers.db", "ext4"),
        ("/home of all/me/answers.db", "nfs4"),
        ("/home of all/me/scratch/answers.db", "xfs"),
        ("/remote/answers.db", "sshfs"),
    ],
)
def test_a_path_is_on_the_innermost_mount(mounts: Path, path: str, kind: str) -> None:
    assert filesystem(Path(path), mounts) == kind


def test_network_file_systems_are_refused_and_local_ones_are_not(mounts: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"network file system \(nfs4\).*local disk"):
        check_local(Path("/home of all/me/answers.db"), mounts=mounts)
    check_local(Path("/home of all/me/scratch/answers.db"), mounts=mounts)
    check_local(Path("/anywhere"), mounts=tmp_path / "not there")


def test_a_run_checks_the_file_of_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Path] = []
    monkeypatch.setattr(store_module, "check_local", checked.append)
    chosen_store(tmp_path / "answers.db")
    chosen_store(False)
    assert checked == [tmp_path / "answers.db"]
