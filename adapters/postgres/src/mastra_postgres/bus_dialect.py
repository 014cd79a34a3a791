"""PostgreSQL as the bus and leases see it: instants are the server's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    DateTime,
    Float,
    Interval,
    Table,
    Text,
    bindparam,
    func,
    literal_column,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.sql.expression import cast

from mastra_sql.bus import BusDialect
from mastra_sql.tables import ColumnKind

__all__ = ("PostgresBusDialect",)


_INSTANT: Final = DateTime(timezone=True)
_MILLISECOND: Final = "interval '1 millisecond'"


class PostgresBusDialect(BusDialect):
    """PostgreSQL 15 and later."""

    time_kind: ClassVar[ColumnKind] = ColumnKind.TIME

    def now(self) -> ColumnElement[Any]:
        # Not now(): a statement may have waited for a lock meanwhile.
        return func.clock_timestamp(type_=_INSTANT)

    def now_us(self) -> ColumnElement[int]:
        return literal_column(
            "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint", BigInteger()
        )

    def later(self, milliseconds: ColumnElement[Any]) -> ColumnElement[Any]:
        return self.now() + milliseconds.self_group() * literal_column(_MILLISECOND, Interval())

    def epoch_ms(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        return cast(func.floor(_seconds(column) * literal_column("1000", Float())), BigInteger())

    def left_ms(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        left = _seconds(column - self.now())
        return cast(func.ceil(left * literal_column("1000", Float())), BigInteger())

    def larger(self, left: ColumnElement[Any], right: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.greatest(left, right)

    def smaller(self, left: ColumnElement[Any], right: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.least(left, right)

    def one_of_numbers(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        numbers = cast(bindparam(name, required=True, type_=Text()), ARRAY(BigInteger()))
        return column == func.any(numbers)

    def held(self, pending: Table, name: str) -> ColumnElement[bool]:
        listed: Any = bindparam(name, required=True, type_=Text())
        given = func.jsonb_array_elements(cast(listed, JSONB)).table_valued("value")
        held = [
            cast(given.c.value.op("->>")(literal_column(str(place))), BigInteger())
            for place in range(3)
        ]
        place = tuple_(pending.c.epoch, pending.c.seq, pending.c.attempt)
        return place.in_(select(*held).select_from(given))

    def numbers_value(self, numbers: Sequence[int]) -> str:
        return "{" + ",".join(map(str, numbers)) + "}"

    def text_of(self, name: str) -> str:
        # The server keeps no NUL, which names of threads' topics and keys may hold.
        if "\\" not in name and "\0" not in name:
            return name
        return name.replace("\\", "\\\\").replace("\0", "\\0")

    def name_of(self, text: str) -> str:
        if "\\" not in text:
            return text
        return "\\".join(part.replace("\\0", "\0") for part in text.split("\\\\"))


def _seconds(moment: ColumnElement[Any]) -> ColumnElement[float]:
    """An instant since 1970, or a span, in seconds."""
    return func.date_part(literal_column("'epoch'"), moment, type_=Float())
