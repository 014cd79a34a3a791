"""A disk that a test can fill, and make read-only: a small file system in memory (root only)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from mastra_conformance.opening import Opener
from mastra_conformance.outcomes import not_run

__all__ = ("Disk", "moved", "small_disk")


class Disk:
    """A mounted file system of a fixed size."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def grow(self, mib: int) -> None:
        """There is room again."""
        _mount("-o", f"remount,size={mib}m", str(self.folder))

    def make_read_only(self) -> None:
        """
        Nothing can be written.

        Raises:
            OSError: Somebody has a file open for writing, so the system refuses.
        """
        _mount("-o", "remount,ro", str(self.folder))

    def make_writable(self) -> None:
        """Everything can be written again."""
        _mount("-o", "remount,rw", str(self.folder))


@contextmanager
def small_disk(mib: int) -> Iterator[Disk]:
    """
    A disk of so many MiB for the length of the block.

    Where it can't be mounted the test is not run.
    """
    if not sys.platform.startswith("linux") or os.geteuid() != 0 or shutil.which("mount") is None:
        not_run("A small disk can be mounted by root on Linux only.")
    folder = Path(tempfile.mkdtemp(prefix="mastra-disk-"))
    try:
        try:
            _mount("-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder))
        except OSError as exc:
            not_run(f"A small disk can't be mounted here: {exc}.")
        try:
            yield Disk(folder)
        finally:
            # Lazily, so that a file that is still open doesn't keep it for ever.
            subprocess.run(["umount", "-l", str(folder)], check=False)
    finally:
        folder.rmdir()


def moved(opener: Opener, folder: Path) -> Opener:
    """The opener of a file adapter, with its file in another folder."""
    path = opener.place.path
    assert path is not None
    new = folder / path.name
    url = opener.place.url.replace(str(path), str(new), 1)
    return replace(opener, place=replace(opener.place, url=url, path=new))


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(done.stderr.strip() or "mount failed")
