"""Skills on disk: folders with a ``SKILL.md`` that says what they are good for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ("Skill", "find_skills", "read_instructions", "read_skill_file")

_FILE: Final = "SKILL.md"
_FENCE: Final = "---"
_MAX_BYTES: Final = 256_000
_MAX_FOLDERS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One skill, as its front matter describes it."""

    name: str
    description: str
    #: The folder that holds it.
    folder: Path
    #: The other members of the front matter.
    more: dict[str, str] = field(default_factory=dict)

    @property
    def location(self) -> str:
        """Where its instructions are."""
        return str(self.folder / _FILE)


def find_skills(places: Iterable[Path]) -> list[Skill]:
    """
    The skills of these places, by name; of two with one name, the first counts.

    A place is the folder of a skill, or one that holds such folders. What has no name or
    description is no skill.
    """
    found: dict[str, Skill] = {}
    for place in places:
        for folder in _folders(place):
            skill = _skill_in(folder)
            if skill is not None:
                found.setdefault(skill.name, skill)
    return [found[name] for name in sorted(found)]


def _folders(place: Path) -> Iterator[Path]:
    if (place / _FILE).is_file():
        yield place
        return
    if place.is_dir():
        yield from sorted(f for f in place.iterdir() if (f / _FILE).is_file())[:_MAX_FOLDERS]


def _skill_in(folder: Path) -> Skill | None:
    members, _ = _parse(_read(folder / _FILE))
    name, description = members.pop("name", ""), members.pop("description", "")
    if not name or not description:
        return None
    return Skill(name=name, description=description, folder=folder, more=members)


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MAX_BYTES).decode("utf-8", errors="replace")


def _parse(text: str) -> tuple[dict[str, str], str]:
    """Front matter (``name: value``, and values that go on in indented lines) and the rest."""
    lines = text.lstrip("\ufeff").splitlines()
    if not lines or lines[0].strip() != _FENCE:
        return {}, text
    members: dict[str, str] = {}
    last = ""
    for number, line in enumerate(lines[1:], 1):
        if line.strip() == _FENCE:
            return members, "\n".join(lines[number + 1 :]).strip()
        if line[:1].isspace() and last:
            members[last] = f"{members[last]} {line.strip()}".strip()
            continue
        name, colon, value = line.partition(":")
        if colon:
            last = name.strip()
            members[last] = value.strip().strip("\"'").removeprefix(">").removeprefix("|").strip()
    return {}, text


def read_instructions(skill: Skill) -> str:
    """What the skill says, without its front matter; may raise ``OSError``."""
    return _parse(_read(skill.folder / _FILE))[1]


def read_skill_file(skill: Skill, name: str) -> str | None:
    """A file of the skill's folder; None if there is none, or it leads out of the folder."""
    folder = skill.folder.resolve()
    path = Path(os.path.normpath(folder / name)).resolve()
    if not path.is_relative_to(folder) or not path.is_file():
        return None
    return _read(path)
