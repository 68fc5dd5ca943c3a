"""Where a store must not be: on a network file system, whose locks SQLite cannot rely on."""

from __future__ import annotations

from pathlib import Path

from multiform.errors import UsageError

#: Types of file systems on which several machines see one file, as /proc/mounts calls them.
_NETWORK = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb2",
        "smb3",
        "smbfs",
        "lustre",
        "gpfs",
        "beegfs",
        "beegfs_nodev",
        "fhgfs",
        "ceph",
        "ceph-fuse",
        "glusterfs",
        "juicefs",
        "mfs",
        "lizardfs",
        "dvs",
        "ncpfs",
        "davfs",
        "s3fs",
        "gcsfuse",
        "rclone",
        "afs",
        "panfs",
        "wekafs",
        "orangefs",
        "pvfs2",
        "ocfs2",
        "gfs2",
        "sshfs",
    }
)


def check_local(path: Path, *, mounts: Path = Path("/proc/mounts")) -> None:
    """Refuse a store on a network file system; nothing is known where the system does not list what is mounted."""
    kind = filesystem(path, mounts)
    if kind in _NETWORK:
        message = f"the store would be on a network file system ({kind}), where SQLite may lose or damage responses"
        hint = "name a file on a local disk with --cache_path or $MULTIFORM_STORE; multiform store merge joins several"
        raise UsageError(message, where=str(path), hint=hint)


def filesystem(path: Path, mounts: Path) -> str | None:
    """The type of the file system that a path is on; None where that is not known."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
        place = path.expanduser().resolve()
    except (OSError, ValueError):  # a name that no file can have is reported where it is used
        return None
    kinds: dict[Path, str] = {}
    for line in lines:
        _, mounted, kind, *_ = [*line.split(" "), "", "", ""]
        kinds[Path(mounted.replace(r"\040", " "))] = kind.removeprefix("fuse.")  # the last mount hides those before
    return next((kinds[folder] for folder in (place, *place.parents) if folder in kinds), None)
