"""Finding plugins by entry points, without importing any of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ("GROUP", "PROCESSOR_GROUP", "Candidate", "scan_entry_points")

#: Entry points whose value is a module or object with hooks.
GROUP: Final = "mastra_core"
#: The short form: the value is a factory of one processor, the name is its id.
PROCESSOR_GROUP: Final = f"{GROUP}.processors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An entry point that nobody has imported yet."""

    name: str
    value: str
    group: str
    distribution: str | None
    version: str | None
    #: The distribution's own one-line description.
    summary: str
    entry_point: EntryPoint


def scan_entry_points() -> tuple[Candidate, ...]:
    """
    All entry points of our groups, by name and distribution.

    A distribution whose metadata can't be read is left out; it can't stop the others.
    """
    found = [
        _candidate(entry_point)
        for entry_point in _entry_points()
        if entry_point.group in (GROUP, PROCESSOR_GROUP)
    ]
    return tuple(sorted(found, key=lambda item: (item.group, item.name, item.distribution or "")))


def _entry_points() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points

    try:
        # Once for both: it reads a file of every distribution.
        found = entry_points()
        return [*found.select(group=GROUP), *found.select(group=PROCESSOR_GROUP)]
    except Exception:  # noqa: BLE001  # some distribution's metadata is damaged: go one by one
        return _readable_entry_points()


def _readable_entry_points() -> Iterator[EntryPoint]:
    from importlib.metadata import distributions

    seen: set[str] = set()
    for distribution in distributions():
        try:
            name = distribution.metadata["Name"].lower()
            entry_points = list(distribution.entry_points)
        except Exception:  # noqa: BLE001, S112  # damaged metadata belongs to nobody we could name
            continue
        if name not in seen:
            seen.add(name)
            yield from entry_points


def _candidate(entry_point: EntryPoint) -> Candidate:
    name, version, summary = _metadata(entry_point, "Name", "Version", "Summary")
    return Candidate(
        name=entry_point.name,
        value=entry_point.value,
        group=entry_point.group,
        distribution=name,
        version=version,
        summary=summary or "",
        entry_point=entry_point,
    )


def _metadata(entry_point: EntryPoint, *members: str) -> list[str | None]:
    """Members of its distribution's metadata, which are parsed anew whenever they are asked for."""
    try:
        metadata = entry_point.dist.metadata  # type: ignore[union-attr]  # caught below
        values = [metadata[member] for member in members]
    except Exception:  # noqa: BLE001  # pragma: no cover  # newer Pythons raise, older give None
        return [None for _ in members]
    return [None if value is None else str(value) for value in values]
