"""Statements that were taken down once, made anew for every call of the floor.

What is new in ours must be new in the floor, else a database finds that nothing changes: ids,
times, and documents, which a caller has as Python values and so have to be written each time.
Which values these are is looked up once; a call only fills them in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic_core import from_json, to_json

__all__ = ("Moment", "Reader", "Taken", "Varying", "scattered")

Varying = Mapping[str, Callable[[int], str]]
"""Texts that stand for something else in every call: what a call of this number has there."""

Maker = Callable[["Moment"], Any]

_LATER = datetime(2099, 1, 1, tzinfo=UTC)
_ISO_LENGTH = len("2026-01-01T00:00:00.000Z")


def scattered(number: int) -> str:
    """Ids as random ones are, all over an index."""
    return f"{number * 2654435761 % 2**32:08x}-{number}"


@dataclass(slots=True)
class Moment:
    """One call of the floor: its number, and a time that is later than all before."""

    number: int

    @property
    def time(self) -> datetime:
        """As a time; far away, so that it is later than what ours wrote."""
        return _LATER + timedelta(milliseconds=self.number)

    @property
    def iso(self) -> str:
        """As JavaScript writes it."""
        return self.time.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    @property
    def ms(self) -> int:
        """In milliseconds."""
        return int(self.time.timestamp() * 1000)


class Taken:
    """
    Finds what must be made anew in the values of one call.

    Args:
        before: When the call was made; later times are its own.
        varying: Texts that differ in every call.
    """

    def __init__(self, before: datetime, varying: Varying) -> None:
        self._before = before
        self._before_ms = int(before.timestamp() * 1000)
        self._before_iso = (
            before.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
        self._varying = dict(varying)

    def maker(self, value: Any) -> Maker | None:
        """How a value is made for a call; None if it is always the same."""
        match value:
            case str():
                return self._text(value)
            case bytes():
                return self._bytes(value)
            case datetime() if self._is_now(value):
                return _time_like(value)
            case bool() | float():
                return None
            case int() if self._is_now_ms(value):
                return lambda moment: moment.ms
            case dict():
                return self._mapping(value)
            case list() | tuple():
                return self._list(value)
            case _:
                return None

    def _text(self, value: str) -> Maker | None:
        if value[:1] in {"{", "["} and value[-1:] in {"}", "]"}:
            try:
                content = from_json(value)
            except ValueError:
                pass  # a list of PostgreSQL
            else:
                inner = self.maker(content) or (lambda _, content=content: content)
                return lambda moment: to_json(inner(moment)).decode()
        if len(value) == _ISO_LENGTH and value[10] == "T" and self._before_iso <= value < "2098":
            return lambda moment: moment.iso
        if value.isdecimal() and self._is_now_ms(int(value)):
            return lambda moment: str(moment.ms)
        found = {text: made for text, made in self._varying.items() if text in value}
        if not found:
            return None
        [(text, made)] = found.items()
        return lambda moment: value.replace(text, made(moment.number))

    def _bytes(self, value: bytes) -> Maker | None:
        try:
            inner = self._text(value.decode())
        except UnicodeDecodeError:
            return None
        return None if inner is None else lambda moment: inner(moment).encode()

    def _mapping(self, value: Mapping[str, Any]) -> Maker | None:
        makers = {name: made for name, one in value.items() if (made := self.maker(one))}
        if not makers:
            return None
        return lambda moment: {**value, **{name: made(moment) for name, made in makers.items()}}

    def _list(self, value: list[Any] | tuple[Any, ...]) -> Maker | None:
        makers = [(place, made) for place, one in enumerate(value) if (made := self.maker(one))]
        if not makers:
            return None

        def made_anew(moment: Moment) -> list[Any]:
            own = list(value)
            for place, made in makers:
                own[place] = made(moment)
            return own

        return made_anew

    def _is_now(self, value: datetime) -> bool:
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return self._before - timedelta(seconds=1) <= aware < _LATER - timedelta(days=400)

    def _is_now_ms(self, value: int) -> bool:
        return self._before_ms <= value < self._before_ms + 600_000


def _time_like(value: datetime) -> Maker:
    if value.tzinfo is None:
        return lambda moment: moment.time.replace(tzinfo=None)
    return lambda moment: moment.time


class Reader:
    """Reads the documents among the rows of one statement; it learns where they stand."""

    def __init__(self) -> None:
        self._places: list[int] | None = None

    def __call__(self, rows: list[Any]) -> list[Any]:
        if self._places is None and rows:
            self._places = [
                place
                for place in range(len(rows[0]))
                if any(_is_document(row[place]) for row in rows)
            ]
        if not self._places:
            return rows
        read = []
        for row in rows:
            own = list(row)
            for place in self._places:
                if own[place] is not None:
                    own[place] = from_json(own[place])
            read.append(own)
        return read


def _is_document(value: Any) -> bool:
    return isinstance(value, str) and value[:1] in {"{", "["}
