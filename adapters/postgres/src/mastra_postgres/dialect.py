"""PostgreSQL as the shared statements see it: ``jsonb``, times with twins, advisory locks.

Node's tables hold each time twice: a naive column with the wall time of the writer's zone,
and a twin ``<name>Z`` with the instant. Which of the two tells the truth differs by table
(snapshots.md 13.3, notifications.md 14.2); both are written. A time travels as ISO text with
the offset of the naive zone, which a naive column takes as the wall time and a twin as the
instant, so one value serves both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Final
from zoneinfo import ZoneInfo

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    FromClause,
    Table,
    Text,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, JSONPATH, TIMESTAMP, insert
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.engine import Dialect

from mastra_core.base.isotime import to_iso_ms
from mastra_core.base.jsonjs import encode
from mastra_core.errors import WireDecodeError
from mastra_core.wire import tables as names
from mastra_postgres.errors import is_bad_json
from mastra_sql.dialect import SqlDialect
from mastra_sql.statement import TWICE, Statement, compile_statement
from mastra_sql.tables import ColumnKind, column_kind, twin_name

__all__ = ("PostgresDialect", "advisory_key", "array_text", "true_twin")

_INSTANT: Final = TIMESTAMP(timezone=True)
_ONE_MILLISECOND: Final = "interval '1 millisecond'"
#: Twins that everybody keeps right, by table; of the others Node writes some only once, and
#: leaves the rest at the time of the insert (notifications.md 14.2).
_TRUE_TWINS: Final = {names.NOTIFICATIONS: frozenset({"createdAt"})}
_USUALLY_TRUE: Final = frozenset({"createdAt", "updatedAt"})

_SUSPENDED_THREAD: Final = (
    '$."context".* ? (@."status" == "suspended" && '
    '@."suspendPayload"."__streamState"."messageList"."memoryInfo"."threadId" == $t)'
)
_DURABLE_THREAD: Final = ("context", "input", "messageListState", "memoryInfo", "threadId")


class PostgresDialect(SqlDialect):
    """PostgreSQL 15 and later."""

    store: ClassVar[str] = "postgres"
    is_alone: ClassVar[bool] = False

    def __init__(self, *, naive_timezone: str = "UTC", scope: str = "") -> None:
        """
        Args:
            naive_timezone: Zone of the naive time columns.
            scope: What sets the locks of this store's tables apart from those of others.
        """
        self._compiler: Dialect = PGDialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
        self._zone = ZoneInfo(naive_timezone)
        self._is_utc = naive_timezone == "UTC"
        self._zone_literal: ColumnElement[str] = literal_column(f"'{naive_timezone}'")
        self._scope = scope
        self._lock = compile_statement(
            select(func.pg_advisory_xact_lock(bindparam("key", required=True)).label("locked")),
            self._compiler,
            name="lock",
            volatile=True,
        )
        self._now = compile_statement(
            select(
                func.date_trunc(literal_column("'milliseconds'"), func.clock_timestamp()).label(
                    "now"
                )
            ),
            self._compiler,
            name="server_now",
            volatile=True,
        )
        # A record is written with one instant in several columns.
        self._last: tuple[datetime | None, str] = (None, "")

    @property
    def compiler(self) -> Dialect:
        return self._compiler

    # -- values ----------------------------------------------------------------------------

    def time_value(self, moment: datetime) -> str:
        last, text = self._last
        if last is not moment:
            text = to_iso_ms(moment)
            if not self._is_utc:
                there = datetime.fromisoformat(text).astimezone(self._zone)
                text = there.isoformat(timespec="milliseconds")
            self._last = (moment, text)
        return text

    def time_from(self, value: Any) -> datetime:
        if not isinstance(value, datetime):
            raise WireDecodeError(f"{value!r} is not a stored time.")
        if value.tzinfo is not None:
            return value
        if self._is_utc:
            return value.replace(tzinfo=UTC)
        return value.replace(tzinfo=self._zone).astimezone(UTC)

    def list_value(self, items: Sequence[str]) -> str:
        return array_text(items)

    # -- times -----------------------------------------------------------------------------

    def time_out(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        return column if (twin := true_twin(column)) is None else twin

    def time_read(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        twin = true_twin(column)
        if twin is None:
            return column
        # Rows that are older than the twins have none.
        return func.coalesce(twin, func.timezone(self._zone_literal, column))

    def assignments(
        self, table: Table, values: Mapping[str, ColumnElement[Any]]
    ) -> dict[str, ColumnElement[Any]]:
        found = dict(values)
        for name, value in values.items():
            twin = twin_name(name)
            if twin in table.c and column_kind(table.c[name]) is ColumnKind.TIME:
                found[name], found[twin] = self._both(value)
        return found

    def _both(self, value: ColumnElement[Any]) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
        """A value for a naive column, and one for its twin."""
        if isinstance(value, BindParameter):
            # The server knows a parameter by one type only, so the same value comes twice.
            return value, bindparam(f"{value.key}{TWICE}", required=True, type_=Text())
        if isinstance(value.type, TIMESTAMP):
            return func.timezone(self._zone_literal, value), value
        if isinstance(value, Column) and value.table is not None:
            twin = value.table.c.get(twin_name(value.name))
            if twin is not None:
                return value, twin
        return value, func.timezone(self._zone_literal, value)

    def earliest(self, left: ColumnElement[Any], right: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.least(left, right)

    def at_least_after(
        self, column: ColumnElement[Any], moment: BindParameter[Any]
    ) -> ColumnElement[Any]:
        stored = self.time_out(column)
        later = stored.op("+")(literal_column(_ONE_MILLISECOND))
        if stored is column:
            return func.greatest(moment, later)
        again: BindParameter[Any] = bindparam(f"{moment.key}{TWICE}", required=True, type_=Text())
        return func.greatest(again, later, type_=_INSTANT)

    # -- JSON ------------------------------------------------------------------------------

    def json_in(self, parameter: BindParameter[Any]) -> ColumnElement[Any]:
        return cast(parameter, JSONB)

    def json_out(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        return column

    def raw_bytes(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        # Each write gives a row another xmin, whoever wrote (snapshots.md G8).
        table: Table = column.table
        return literal_column(f"{self._named(table)}.xmin::text")

    def _named(self, table: Table) -> str:
        return str(self._compiler.identifier_preparer.format_table(table))

    def json_at(self, column: ColumnElement[Any], *path: str) -> ColumnElement[Any]:
        # One member is worded as the index of the TypeScript store words it.
        if len(path) == 1:
            return column.op("->>")(literal_column(f"'{path[0]}'"))
        return column.op("#>>")(_path(path))

    def json_has(self, column: ColumnElement[Any], *path: str) -> ColumnElement[bool]:
        return column.op("#>")(_path(path)).is_not(None)

    def json_text_at(self, column: ColumnElement[Any], *path: str) -> ColumnElement[Any]:
        return column.op("#>")(_path(path))

    def text_json_at(self, column: ColumnElement[Any], *path: str) -> ColumnElement[Any]:
        return cast(column, JSONB).op("#>")(_path(path))

    def json_without(self, column: ColumnElement[Any], *paths: Sequence[str]) -> ColumnElement[Any]:
        # Members of the document itself first: what they leave is small enough to be fast.
        plain = [path[0] for path in paths if len(path) == 1]
        found = column
        if plain:
            found = found.op("-")(literal_column(f"'{{{','.join(plain)}}}'::text[]"))
        for path in paths:
            if len(path) > 1:
                found = found.op("#-")(self._existing(column, path))
        return found

    def _existing(self, column: ColumnElement[Any], path: Sequence[str]) -> ColumnElement[Any]:
        """The path, if it leads through objects only; it is an error to look for a member's
        name in a list, and one odd document must not end the query of all others."""
        parent = column.op("#>")(_path(path[:-1]))
        is_object = func.jsonb_typeof(parent) == literal_column("'object'")
        there: ColumnElement[Any] = literal_column(f"'{{{','.join(path)}}}'::text[]")
        return case((is_object, there), else_=literal_column("'{}'::text[]"))

    def unpacked(self, column: ColumnElement[Any]) -> tuple[ColumnElement[Any], FromClause | None]:
        # Nothing is added, but the result is in memory, uncompressed; OFFSET keeps it there.
        opened = column.op("||")(literal_column("'{}'::jsonb")).label("document")
        row = select(opened).correlate(column.table).offset(literal_column("0"))
        source = row.lateral("unpacked")
        return source.c.document, source

    def json_valid(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        # The column's type lets nothing else in.
        return true()

    def when_valid(
        self, column: ColumnElement[Any], expression: ColumnElement[Any]
    ) -> ColumnElement[Any]:
        return expression

    def member_values(self, key: str, parameter: str, value: Any) -> tuple[str, dict[str, Any]]:
        values: dict[str, Any] = {f"{parameter}_key": key}
        if value is None:
            return "null", values
        values[parameter] = encode(value)
        return "value", values

    def member_equals(
        self, column: ColumnElement[Any], parameter: str, shape: str
    ) -> ColumnElement[bool]:
        key = cast(bindparam(f"{parameter}_key", required=True, type_=Text()), Text)
        member = column.op("->")(key)
        if shape == "null":
            return func.coalesce(member, literal_column("'null'::jsonb")) == literal_column(
                "'null'::jsonb"
            )
        wanted: BindParameter[Any] = bindparam(parameter, required=True, type_=Text())
        return member == cast(wanted, JSONB)

    def any_suspended_thread(
        self, column: ColumnElement[Any], parameter: BindParameter[Any]
    ) -> ColumnElement[bool]:
        wanted = cast(parameter, Text)
        given = func.jsonb_build_object(literal_column("'t'"), wanted)
        path = cast(literal_column(f"'{_SUSPENDED_THREAD}'"), JSONPATH)
        return or_(
            func.jsonb_path_exists(column, path, given),
            self.json_at(column, *_DURABLE_THREAD) == wanted,
        )

    # -- the rest --------------------------------------------------------------------------

    def insert(self, table: Table) -> Any:
        return insert(table)

    def one_of(
        self, column: ColumnElement[Any], parameter: BindParameter[Any]
    ) -> ColumnElement[bool]:
        return column == func.any(cast(parameter, ARRAY(Text())))

    def contains_ignoring_case(
        self, column: ColumnElement[Any], parameter: BindParameter[Any]
    ) -> ColumnElement[bool]:
        return func.strpos(func.lower(column), func.lower(parameter)) > literal_column("0")

    def row_id(self, table: Table) -> ColumnElement[Any]:
        return literal_column(f"{self._named(table)}.ctid")

    def is_bad_json(self, error: BaseException) -> bool:
        return is_bad_json(error)

    # -- transactions ----------------------------------------------------------------------

    def lock(self, scope: Sequence[str]) -> tuple[Statement, tuple[Any, ...]]:
        return self._lock, (advisory_key(self._scope, *scope),)

    def server_now(self) -> Statement:
        return self._now

    def now_inside(self) -> ColumnElement[Any]:
        # Of the statement, not of the transaction, which may have waited for a lock.
        return func.date_trunc(literal_column("'milliseconds'"), func.statement_timestamp())


def advisory_key(*scope: str) -> int:
    """The number of an advisory lock; equal in every process."""
    digest = hashlib.blake2b(encode(list(scope)).encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "big", signed=True)


def array_text(items: Sequence[str]) -> str:
    """A list of texts as PostgreSQL writes arrays."""
    quoted = (item.replace("\\", "\\\\").replace('"', '\\"') for item in items)
    return "{" + ",".join(f'"{item}"' for item in quoted) + "}"


def true_twin(column: ColumnElement[Any]) -> ColumnElement[Any] | None:
    """The twin of a naive column, if it is the one to trust."""
    table = getattr(column, "table", None)
    name = getattr(column, "name", "")
    if table is None or name not in _USUALLY_TRUE:
        return None
    twin: ColumnElement[Any] | None = table.c.get(twin_name(name))
    if twin is None:
        return None
    origins = [c.info["table"] for c in twin.base_columns if isinstance(c, Column)]
    return twin if all(name in _TRUE_TWINS.get(o, _USUALLY_TRUE) for o in origins) else None


def _path(path: Sequence[str]) -> ColumnElement[Any]:
    """A fixed path in PostgreSQL's spelling; members are plain names."""
    return literal_column(f"'{{{','.join(path)}}}'")
