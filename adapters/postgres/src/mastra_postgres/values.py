"""Python values as the server takes them, and rows as the domain stores take them.

Parameters travel as text, results as binary: neither depends on a session's settings
(``DateStyle``, ``TimeZone``), so none has to be set, which poolers wouldn't keep.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg
from psycopg import pq
from psycopg.adapt import AdaptersMap, Loader, Transformer

from mastra_postgres.errors import NulError
from mastra_postgres.json_form import from_column, to_column
from mastra_sql.executor import Row

__all__ = ("Reader", "parameter", "parameters")


def parameter(value: Any, *, is_json: bool = False) -> bytes | None:
    """
    One value as text for the server.

    Args:
        value: A text, a number, or nothing; times and lists are texts already.
        is_json: It is JSON text on its way into ``jsonb``.

    Raises:
        NulError: A text that isn't JSON holds a NUL character.
        UnicodeEncodeError: It holds a lone surrogate.
    """
    if value is None:
        return None
    if type(value) is not str:
        return str(value).encode()
    data = value.encode()
    if is_json:
        return to_column(data)
    if b"\0" in data:
        raise NulError
    return data


class Reader:
    """Turns results into rows of plain values; JSON stays text."""

    def __init__(self) -> None:
        self.adapters = AdaptersMap(psycopg.adapters)
        for name, loader in _LOADERS.items():
            self.adapters.register_loader(name, loader)
        self.connection = None
        self._transformer = Transformer(self)

    def rows(self, result: pq.abc.PGresult) -> list[Row]:
        """All rows of one result."""
        count = result.ntuples
        if not count:
            return []
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, count, tuple)


class _Json(Loader):
    """``json`` and ``jsonb`` as the text that was stored."""

    format = pq.Format.BINARY

    def load(self, data: Any) -> str:
        # jsonb comes behind the version of its form.
        found = bytes(data)
        return from_column(found[1:] if found[:1] == b"\x01" else found)


_EPOCH_NAIVE: Final = datetime(2000, 1, 1)  # noqa: DTZ001 - a column without zone has none
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECONDS: Final = struct.Struct("!q")


class _Timestamp(Loader):
    """``timestamp``: a time without zone; what is out of Python's range stays a number."""

    format = pq.Format.BINARY

    def load(self, data: Any) -> datetime | int:
        return _moment(_EPOCH_NAIVE, data)


class _TimestampTz(Loader):
    """``timestamptz``: an instant in UTC."""

    format = pq.Format.BINARY

    def load(self, data: Any) -> datetime | int:
        return _moment(_EPOCH, data)


def _moment(epoch: datetime, data: Any) -> datetime | int:
    [microseconds] = _MICROSECONDS.unpack(data)
    try:
        return epoch + timedelta(microseconds=microseconds)
    except OverflowError:
        # "infinity", or before the year 1: the codec says that it is no time.
        return int(microseconds)


class _Nothing(Loader):
    """``void``: what a function without a result returns."""

    format = pq.Format.BINARY

    def load(self, data: Any) -> None:
        return None


_LOADERS: Final[dict[str, type[Loader]]] = {
    "json": _Json,
    "jsonb": _Json,
    "timestamp": _Timestamp,
    "timestamptz": _TimestampTz,
}


def parameters(values: Sequence[Any], json_at: frozenset[int]) -> list[bytes | None]:
    """All values of one statement; those at these positions are JSON."""
    if not json_at:
        return [parameter(value) for value in values]
    return [parameter(value, is_json=index in json_at) for index, value in enumerate(values)]
