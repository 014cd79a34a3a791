"""An earlier version of our own code, for second processes (design 5.5).

Given as a folder of wheels, or as a revision of the checkout; without either, the newest
tag of the checkout. Nothing is installed: the packages are unpacked and come first on the
path of the second process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

from mastra_conformance.imports import child_environment
from mastra_conformance.outcomes import not_run
from mastra_conformance.scan import find_checkout

__all__ = ("Older", "older_version")

_SOURCES: Final = ("conformance_tests/src", "adapters/*/src", "plugins/*/src")
_WORKERS: Final = Path(__file__).with_name("older")


@dataclass(frozen=True, slots=True, kw_only=True)
class Older:
    """Where an earlier version lies."""

    name: str
    #: Folders that hold its packages.
    paths: tuple[Path, ...]

    def environment(self) -> Mapping[str, str]:
        """Environment of an interpreter that runs it, with our workers beside it."""
        environment = child_environment()
        first = [*map(str, self.paths), str(_WORKERS)]
        path = os.pathsep.join([*first, environment["PYTHONPATH"]])
        # Without the working folder, which may hold this version.
        return {**environment, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}

    def has(self, package: str) -> bool:
        """Whether a package was there already."""
        return any((path / package).is_dir() for path in self.paths)


@contextmanager
def older_version(wanted: str | None) -> Iterator[Older]:
    """
    Unpack it for the length of the block.

    Where there is none the test is not run.
    """
    with tempfile.TemporaryDirectory(prefix="mastra-older-") as name:
        folder = Path(name)
        if wanted is not None and Path(wanted).is_dir():
            yield _from_wheels(Path(wanted), folder)
            return
        checkout = find_checkout(Path.cwd()) or find_checkout(Path(__file__).parent)
        if checkout is None:
            not_run(
                "There is no checkout to take an earlier version from.",
                command="--older FOLDER_OF_WHEELS",
            )
        revision = wanted or _newest_tag(checkout)
        if revision is None:
            not_run("There is no earlier release yet.", command="--older REVISION")
        yield _from_checkout(checkout, revision, folder)


def _from_wheels(wheels: Path, folder: Path) -> Older:
    found = sorted(wheels.glob("*.whl"))
    if not found:
        not_run(f"There is no wheel in {wheels}.", command="uv build --all-packages --wheel")
    for wheel in found:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)  # noqa: S202 – wheels of ours, given by the user
    return Older(name=found[0].name.split("-")[1], paths=(folder,))


def _from_checkout(checkout: Path, revision: str, folder: Path) -> Older:
    done = _git(checkout, "archive", "--format=tar", revision)
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip()
        not_run(f"Revision {revision!r} can't be had: {reason}.", command="git fetch --unshallow")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        if sys.version_info >= (3, 12):
            archive.extractall(folder, filter="data")
        else:
            archive.extractall(folder)  # noqa: S202 – our own repository
    sources = [path for pattern in _SOURCES for path in sorted(folder.glob(pattern))]
    return Older(name=revision, paths=(folder, *sources))


def _newest_tag(checkout: Path) -> str | None:
    done = _git(checkout, "describe", "--tags", "--abbrev=0")
    return done.stdout.decode().strip() if done.returncode == 0 else None


def _git(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=checkout, capture_output=True, check=False)
