"""Which differences from a recording are meant, and why.

Every allowed difference names the sentence that asks for it: a decision, a row of the
tables in ``golden/README.md``, or a section of a specification. One that doesn't occur any
more is an error, so the list stays true.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, get_args

from mastra_conformance.wire.compare import compare

__all__ = (
    "AllowedDifference",
    "DifferencesFileError",
    "Kind",
    "Verdict",
    "all_differences",
    "allowed_for",
    "judge",
    "unknown_scenes",
)

Kind = Literal["decision", "must-differ", "not-contract"]
#: As a scene: all of them. Such an entry must be of use in at least one.
_EVERYWHERE: Final = "*"

_REFERENCE: Final = re.compile(
    r"(decisions\.md \d+"
    r"|golden/README\.md: .+"
    r"|design\.md .+"
    r"|(signals|streaming|snapshots|notifications|workflows|processors)\.md \S.*)"
)
_MEMBERS: Final = frozenset({"scenes", "pointers", "kind", "because", "reason"})
_OPTIONAL: Final = frozenset({"only_on"})


class DifferencesFileError(Exception):
    """``differences.toml`` says something that it can't say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedDifference:
    """Places of some scenes where we differ on purpose."""

    #: ``*`` stands for all that have the place.
    scenes: tuple[str, ...]
    #: JSON pointers; ``*`` stands for any one segment, ``+*`` for any element that only we
    #: have. Everything below is meant, too.
    pointers: tuple[str, ...]
    kind: Kind
    #: The sentence that asks for it.
    because: str
    reason: str
    #: The store on which it occurs; None: on any.
    only_on: str | None = None

    @property
    def must_occur(self) -> bool:
        """Whether it is an error if nothing differs there."""
        return self.kind != "not-contract" and _EVERYWHERE not in self.scenes


@cache
def all_differences() -> tuple[AllowedDifference, ...]:
    """
    Everything that the file allows.

    Raises:
        DifferencesFileError: An entry is malformed.
    """
    text = files("mastra_conformance.wire").joinpath("differences.toml").read_text("utf-8")
    return tuple(_entry(raw) for raw in tomllib.loads(text).get("difference", ()))


def _entry(raw: Mapping[str, Any]) -> AllowedDifference:
    if set(raw) - _OPTIONAL != _MEMBERS:
        raise DifferencesFileError(f"Members must be {sorted(_MEMBERS)}, not {sorted(raw)}.")
    if raw["kind"] not in get_args(Kind):
        raise DifferencesFileError(f"Unknown kind {raw['kind']!r} for {raw['pointers']}.")
    if not _REFERENCE.fullmatch(raw["because"]):
        raise DifferencesFileError(f"{raw['because']!r} is no reference to a rule.")
    return AllowedDifference(
        scenes=tuple(raw["scenes"]),
        pointers=tuple(raw["pointers"]),
        kind=raw["kind"],
        because=raw["because"],
        reason=raw["reason"],
        only_on=raw.get("only_on"),
    )


def allowed_for(scene_id: str) -> list[AllowedDifference]:
    """
    What may differ in one scene.

    Raises:
        DifferencesFileError: An entry of the file is malformed.
    """
    return [
        entry
        for entry in all_differences()
        if scene_id in entry.scenes or _EVERYWHERE in entry.scenes
    ]


def unknown_scenes(known: Sequence[str]) -> list[str]:
    """Scenes that the file names and nobody has."""
    named = {scene for entry in all_differences() for scene in entry.scenes}
    return sorted(named - set(known) - {_EVERYWHERE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a replay came to."""

    #: Differences that nobody asked for, and allowed ones that don't occur.
    faults: list[str]
    #: The allowed places that differ, each with its entry.
    used: list[tuple[AllowedDifference, str]]


def judge(scene_id: str, recorded: Mapping[str, Any], replayed: Mapping[str, Any]) -> Verdict:
    """
    Compare a replay with its recording.

    Entries of the kind ``not-contract`` and those for all scenes needn't occur.
    """
    places = [(entry, place) for entry in allowed_for(scene_id) for place in entry.pointers]

    def is_excused(pointer: str) -> bool:
        return any(_covers(place, pointer) for _, place in places)

    faults, excused = compare(recorded, replayed, is_excused=is_excused)
    used = [
        (entry, place)
        for entry, place in places
        if any(_covers(place, difference.pointer) for difference in excused)
    ]
    unused = [
        f"{place}: no longer differs ({entry.because})"
        for entry, place in places
        if entry.must_occur and (entry, place) not in used
    ]
    return Verdict(faults=[*map(str, faults), *unused], used=used)


def _covers(place: str, pointer: str) -> bool:
    """Whether a pointer is this place, or below it."""
    wanted, given = place.split("/"), pointer.split("/")
    return len(given) >= len(wanted) and all(
        want in ("*", have) or (want == "+*" and have.startswith("+"))
        for want, have in zip(wanted, given, strict=False)
    )
