"""Where a file must not lie if several processes are to share it (pubsub_and_lease.md 8.5).

SQLite's write-ahead log needs memory that all processes share, so all of them must run on one
kernel and see one file. Network and shared folders only look as if that held.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from mastra_core.errors import StorageSchemaError
from mastra_libsql.errors import error_id

__all__ = ("check_file_system", "file_system_of")

_MOUNTS: Final = Path("/proc/self/mounts")
_SHARED: Final = frozenset(
    {
        "9p",
        "afs",
        "ceph",
        "cifs",
        "fuse.cephfs",
        "fuse.glusterfs",
        "fuse.s3fs",
        "fuse.sshfs",
        "fuse.vmhgfs-fuse",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "prl_fs",
        "smb3",
        "smbfs",
        "vboxsf",
        "virtiofs",
        "vmhgfs",
    }
)


def file_system_of(path: Path, mounts: str) -> str | None:
    """The kind of file system of a path, by a listing of mounts; None if it isn't there."""
    best, kind = "", None
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:  # noqa: PLR2004 - device, folder, kind
            continue
        folder = fields[1].replace("\\040", " ")
        is_inside = path == Path(folder) or Path(folder) in path.parents
        if is_inside and len(folder) >= len(best):
            best, kind = folder, fields[2]
    return kind


def check_file_system(path: Path) -> None:
    """
    Refuse a file on a network file system or in a folder shared between machines.

    Raises:
        StorageSchemaError: It is there.
    """
    mounts = ""
    with suppress(OSError):
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace")
    kind = file_system_of(Path(os.path.realpath(path)), mounts)
    if kind in _SHARED:
        raise StorageSchemaError(
            f"{path} lies on a {kind} file system, where several processes can't share a bus or "
            "leases.",
            id=error_id("init"),
            hint="Use a file on a local disk, or a libSQL server: libsql+http://host:port",
            details={"file_system": kind},
        )
