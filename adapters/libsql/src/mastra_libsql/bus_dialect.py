"""SQLite as the bus and leases see it: times are numbers of milliseconds."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Table,
    Text,
    bindparam,
    func,
    literal_column,
    select,
    tuple_,
)

from mastra_libsql.dialect import SqliteDialect
from mastra_libsql.host_time import boot_id
from mastra_libsql.settings import Target
from mastra_sql.bus import BusDialect
from mastra_sql.tables import ColumnKind

__all__ = ("EmbeddedBusDialect", "RemoteBusDialect", "bus_dialect")


class _SqliteBusDialect(BusDialect):
    """What a file and a server have in common."""

    time_kind: ClassVar[ColumnKind] = ColumnKind.INTEGER

    def later(self, milliseconds: ColumnElement[Any]) -> ColumnElement[Any]:
        return self.now() + milliseconds

    def epoch_ms(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        return column

    def left_ms(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        return column - self.now()

    def larger(self, left: ColumnElement[Any], right: ColumnElement[Any]) -> ColumnElement[Any]:
        # The scalar max() is NULL if any of its arguments is.
        return func.max(func.coalesce(left, right), func.coalesce(right, left))

    def smaller(self, left: ColumnElement[Any], right: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.min(func.coalesce(left, right), func.coalesce(right, left))

    def one_of_numbers(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        given = _given(name)
        return column.in_(select(given.c.value))

    def held(self, pending: Table, name: str) -> ColumnElement[bool]:
        given = _given(name)
        held = [given.c.value.op("->>")(literal_column(str(place))) for place in range(3)]
        place = tuple_(pending.c.epoch, pending.c.seq, pending.c.attempt)
        return place.in_(select(*held))


def _given(name: str) -> Any:
    """The rows of a list that is one parameter."""
    listed: Any = bindparam(name, required=True, type_=Text())
    return func.json_each(listed).table_valued("value")


class EmbeddedBusDialect(_SqliteBusDialect):
    """A database in this process; it asks us for the time (``host_time``)."""

    def __init__(self, sql: SqliteDialect, boot: str | None = None) -> None:
        """``boot``: which start of the machine this is, if anything tells."""
        super().__init__(sql)
        self._boot = boot

    def now(self) -> ColumnElement[Any]:
        return func.mastra_now_ms(type_=BigInteger())

    def now_us(self) -> ColumnElement[int]:
        return func.mastra_now_us(type_=BigInteger())

    def incarnation(self) -> ColumnElement[Any] | None:
        return None if self._boot is None else literal_column(f"'{self._boot}'", Text())


class RemoteBusDialect(_SqliteBusDialect):
    """A libSQL server; its own clock decides."""

    def now(self) -> ColumnElement[Any]:
        return literal_column("CAST(unixepoch('subsec') * 1000 AS INTEGER)", BigInteger())

    def now_us(self) -> ColumnElement[int]:
        return literal_column("CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000", BigInteger())


def bus_dialect(sql: SqliteDialect, target: Target) -> BusDialect:
    """The dialect of a database."""
    return EmbeddedBusDialect(sql, boot_id()) if target.is_embedded else RemoteBusDialect(sql)
