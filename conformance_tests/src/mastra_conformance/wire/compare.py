"""Where a replay differs from its recording, as JSON pointers.

Ids and times of the recording are names (``id3``, ``t7``). Equal names must be equal values
in the replay and the other way round; of two times the one with the higher number must not
be earlier. The order of members doesn't count, except in ``attributes``. Of an error counts
what the recording says of it, without its class (streaming.md 3.7, design.md 6): ours has a
class for each conclusion, and always an id.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import SequenceMatcher
from typing import Any, Final

from mastra_core.base.isotime import epoch_ms, parse_iso

__all__ = ("ABSENT", "Difference", "compare")


class _Absent:
    def __repr__(self) -> str:
        return "(absent)"


#: Stands for a member or element that one side doesn't have.
ABSENT: Final = _Absent()

_TIME: Final = re.compile(r"t(\d+)")
_ID: Final = re.compile(r"\bid\d+\b")
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: Members that say what kind of thing a list element is.
_KINDS: Final = ("type", "role", "action", "agent", "hook", "tool", "workflow_name", "stepType")
_ERROR_MEMBERS: Final = frozenset(
    {"name", "message", "id", "code", "domain", "category", "details", "cause"}
)
_SHOWN: Final = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One place where the two sides don't agree."""

    pointer: str
    recorded: object
    replayed: object

    def __str__(self) -> str:
        return f"{self.pointer}: recorded {_short(self.recorded)}, ours {_short(self.replayed)}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def compare(
    recorded: object, replayed: object, *, is_excused: Callable[[str], bool] = lambda _: False
) -> tuple[list[Difference], list[Difference]]:
    """
    Compare two trees.

    Args:
        recorded: What the TypeScript system did, with names for ids and times.
        replayed: What we did, with real ids and times.
        is_excused: Whether a place, with everything below it, may differ. Such a place
            doesn't decide which id or time a name stands for.

    Returns:
        The differences, and those in excused places.
    """
    walk = _Walk(is_excused)
    walk.compare("", recorded, replayed)
    walk.differences += walk.names.time_faults()
    excused = walk.look_at_excused()
    return walk.differences, excused


@dataclass(slots=True)
class _Names:
    """What the names of the recording stand for in the replay."""

    ids: dict[str, str] = field(default_factory=dict)
    taken: dict[str, str] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    seen_at: dict[int, list[str]] = field(default_factory=dict)

    def bind_id(self, name: str, value: str) -> bool:
        """Whether this name may stand for that id."""
        if name in self.ids or value in self.taken:
            return self.ids.get(name) == value
        self.ids[name] = value
        self.taken[value] = name
        return True

    def bind_time(self, number: int, value: int, pointer: str) -> bool:
        """Whether this name may stand for that time; the order is looked at later."""
        self.seen_at.setdefault(number, []).append(pointer)
        return self.times.setdefault(number, value) == value

    def time_faults(self) -> list[Difference]:
        """Times that are out of order: the fewest that put the others in order."""
        numbers = sorted(self.times)
        kept = set(_longest_rise([self.times[number] for number in numbers]))
        faults = []
        for position, number in enumerate(numbers):
            if position in kept:
                continue
            faults += [
                Difference(
                    pointer=pointer, recorded=f"t{number} in order", replayed="another order"
                )
                for pointer in self.seen_at[number]
            ]
            del self.times[number]
        return faults

    def fits_time(self, number: int, value: int) -> bool:
        """Whether this name could stand for that time among those that are known."""
        if number in self.times:
            return self.times[number] == value
        before = [known for other, known in self.times.items() if other < number]
        after = [known for other, known in self.times.items() if other > number]
        return max(before, default=value) <= value <= min(after, default=value)


def _longest_rise(values: Sequence[int]) -> list[int]:
    """Positions of the longest part of ``values`` that never falls."""
    ends: list[int] = []
    at: list[int] = []
    previous: list[int | None] = []
    for position, value in enumerate(values):
        length = bisect_right(ends, value)
        previous.append(at[length - 1] if length else None)
        if length == len(ends):
            ends.append(value)
            at.append(position)
        else:
            ends[length] = value
            at[length] = position
    found: list[int] = []
    position_or_none = at[-1] if at else None
    while position_or_none is not None:
        found.append(position_or_none)
        position_or_none = previous[position_or_none]
    return found


class _Walk:
    """One comparison."""

    def __init__(self, is_excused: Callable[[str], bool]) -> None:
        self._is_excused = is_excused
        self._excused: list[tuple[str, object, object]] = []
        self._is_late = False
        self.names = _Names()
        self.differences: list[Difference] = []

    def look_at_excused(self) -> list[Difference]:
        """The differences below the excused places."""
        self.differences, kept = [], self.differences
        self._is_late = True
        for pointer, recorded, replayed in self._excused:
            self.compare(pointer, recorded, replayed)
        found, self.differences = self.differences, kept
        return found

    def compare(self, pointer: str, recorded: object, replayed: object) -> None:
        """Compare the values of one place."""
        if not self._is_late and self._is_excused(pointer):
            self._excused.append((pointer, recorded, replayed))
        elif isinstance(recorded, Mapping) and isinstance(replayed, Mapping):
            self._mappings(pointer, recorded, replayed)
        elif isinstance(recorded, list) and isinstance(replayed, list):
            self._lists(pointer, recorded, replayed)
        elif not self._is_same(pointer, recorded, replayed):
            self._differ(pointer, recorded, replayed)

    def _differ(self, pointer: str, recorded: object, replayed: object) -> None:
        self.differences.append(Difference(pointer=pointer, recorded=recorded, replayed=replayed))

    # -- trees ------------------------------------------------------------------------------

    def _mappings(
        self, pointer: str, recorded: Mapping[str, Any], replayed: Mapping[str, Any]
    ) -> None:
        names = dict.fromkeys((*recorded, *replayed))
        if _is_error(recorded) != _is_error(replayed):
            self._differ(pointer, recorded, replayed)
            return
        if _is_error(recorded):
            names = dict.fromkeys(name for name in recorded if name != "name")
        for name in names:
            self.compare(
                f"{pointer}/{_escape(name)}",
                recorded.get(name, ABSENT),
                replayed.get(name, ABSENT),
            )
        has_order = pointer.endswith("/attributes")
        if has_order and list(recorded) != list(replayed) and set(recorded) == set(replayed):
            self._differ(pointer, list(recorded), list(replayed))

    def _lists(self, pointer: str, recorded: list[Any], replayed: list[Any]) -> None:
        for mine, theirs in _pairs(recorded, replayed):
            if mine is None:
                assert theirs is not None
                # An element that only we have is named by its place in our list.
                self.compare(f"{pointer}/+{theirs}", ABSENT, replayed[theirs])
            else:
                other = replayed[theirs] if theirs is not None else ABSENT
                self.compare(f"{pointer}/{mine}", recorded[mine], other)

    # -- leaves -----------------------------------------------------------------------------

    def _is_same(self, pointer: str, recorded: object, replayed: object) -> bool:
        if isinstance(recorded, str):
            time = _TIME.fullmatch(recorded)
            if time is not None:
                return self._is_same_time(pointer, int(time[1]), replayed)
            if isinstance(replayed, str):
                return self._is_same_text(recorded, replayed)
        if isinstance(recorded, bool) != isinstance(replayed, bool):
            return False
        return recorded == replayed

    def _is_same_time(self, pointer: str, number: int, replayed: object) -> bool:
        value = _milliseconds(replayed)
        if value is None:
            return False
        if self._is_late:
            return self.names.fits_time(number, value)
        return self.names.bind_time(number, value, pointer)

    def _is_same_text(self, recorded: str, replayed: str) -> bool:
        names, ids = _ID.findall(recorded), _UUID.findall(replayed)
        if len(names) != len(ids) or _ID.split(recorded) != _UUID.split(replayed):
            return recorded == replayed
        # All of them are bound, also after one that doesn't fit.
        fits = [self.names.bind_id(name, value) for name, value in zip(names, ids, strict=True)]
        return all(fits)


def _is_error(value: Mapping[str, Any]) -> bool:
    return "name" in value and "message" in value and set(value) <= _ERROR_MEMBERS


def _escape(name: object) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")


def _milliseconds(value: object) -> int | None:
    if isinstance(value, datetime):
        return epoch_ms(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    try:
        return epoch_ms(parse_iso(value))
    except ValueError:
        return None


def _pairs(
    recorded: Sequence[Any], replayed: Sequence[Any]
) -> Iterator[tuple[int | None, int | None]]:
    """Positions that belong together; where the kinds differ, one side stands alone."""
    mine, theirs = [_kind(item) for item in recorded], [_kind(item) for item in replayed]
    matcher = SequenceMatcher(None, mine, theirs, autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(range(start, end), range(other_start, other_end), strict=True)
            continue
        if tag == "replace" and end - start == other_end - other_start:
            yield from zip(range(start, end), range(other_start, other_end), strict=True)
            continue
        yield from ((position, None) for position in range(start, end))
        yield from ((None, position) for position in range(other_start, other_end))


def _kind(item: object) -> str:
    if not isinstance(item, Mapping):
        return type(item).__name__
    payload = item.get("payload")
    call = payload.get("toolCallId") if isinstance(payload, Mapping) else item.get("toolCallId")
    return repr([item.get(name) for name in _KINDS] + [call])
