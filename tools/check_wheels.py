"""Look into built distributions: ``check_wheels.py FOLDER``.

A wheel holds its own package and nothing else, with ``py.typed``, licence and readme; its source
archive builds the same package.
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ("main",)


def wheel_complaints(path: Path) -> Iterator[str]:
    """What is wrong with one wheel."""
    package = path.name.split("-")[0]
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    foreign = {name.partition("/")[0] for name in names} - {package}
    foreign = {name for name in foreign if not name.endswith(".dist-info")}
    if foreign:
        yield f"{path.name} also holds {', '.join(sorted(foreign))}."
    if f"{package}/py.typed" not in names:
        yield f"{path.name} has no py.typed."
    if not any(name.endswith("/licenses/LICENSE") for name in names):
        yield f"{path.name} has no licence text."
    if caches := [name for name in names if "__pycache__" in name]:
        yield f"{path.name} holds caches, {caches[0]} first."


def archive_complaints(path: Path) -> Iterator[str]:
    """What is wrong with one source archive."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for wanted in ("pyproject.toml", "README.md", "LICENSE"):
        if wanted not in names:
            yield f"{path.name} has no {wanted}."


def main(folder: str) -> int:
    """Print what is wrong with the files of a folder; 1 if anything."""
    wheels = sorted(Path(folder).glob("*.whl"))
    archives = sorted(Path(folder).glob("*.tar.gz"))
    wrong = [complaint for path in wheels for complaint in wheel_complaints(path)]
    wrong += [complaint for path in archives for complaint in archive_complaints(path)]
    if len(wheels) != len(archives) or not wheels:
        wrong.append(f"{len(wheels)} wheels and {len(archives)} source archives are no pairs.")
    print("\n".join(wrong) if wrong else f"{len(wheels)} wheels hold what they should.")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
