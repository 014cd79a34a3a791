"""SQLite as the shared statements see it: JSONB columns, ISO times, ``json_each`` lists."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Executable,
    Table,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    null,
    or_,
    select,
    text,
)
from sqlalchemy.dialects.sqlite import dialect as sqlite_compiler
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.engine import Dialect

from mastra_core.base.isotime import parse_iso, to_iso_ms
from mastra_core.base.jsonjs import encode
from mastra_core.errors import WireDecodeError
from mastra_libsql.errors import is_malformed_json
from mastra_sql.dialect import SqlDialect
from mastra_sql.statement import Statement, compile_statement

__all__ = ("SqliteDialect", "json_path")

#: ``json_valid``: JSON text, or a blob that looks like JSONB from outside (a cheap look).
_LOOKS_VALID: ColumnElement[int] = literal_column("5")
#: ``json_valid``: JSON text, or a blob that is JSONB to its last byte.
_IS_VALID: ColumnElement[int] = literal_column("9")

_SUSPENDED_THREAD = """EXISTS (
  SELECT 1 FROM json_each({column}, '$.context') AS step
  WHERE step.type = 'object' AND json_extract(step.value, '$.status') = 'suspended'
    AND json_extract(step.value,
      '$.suspendPayload.__streamState.messageList.memoryInfo.threadId') = :{parameter}
) OR json_extract({column}, '$.context.input.messageListState.memoryInfo.threadId') = :{parameter}
"""


class SqliteDialect(SqlDialect):
    """SQLite 3.45 and later, embedded or behind a libSQL server."""

    store: ClassVar[str] = "libsql"

    def __init__(self, *, has_own_clock: bool) -> None:
        """``has_own_clock``: the database runs elsewhere, so its clock decides on claims."""
        self._compiler = sqlite_compiler(paramstyle="qmark")
        self._server_now = _server_now(self._compiler) if has_own_clock else None
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
            self._last = (moment, text)
        return text

    def time_from(self, value: Any) -> datetime:
        try:
            # What we and Node write; other forms take the long way.
            if len(value) == _ISO_LENGTH and value[-1] == "Z":
                return datetime.fromisoformat(value)
            return parse_iso(value)
        except (TypeError, ValueError) as exc:
            raise WireDecodeError(f"{value!r} is not a stored time.") from exc

    def times_from(self, values: Sequence[Any]) -> list[datetime]:
        try:
            # As above, in one go: of this length, with a zone, and that is what Z says.
            if set(map(len, values)) <= {_ISO_LENGTH}:
                moments = list(map(datetime.fromisoformat, values))
                if all(moment.tzinfo is UTC for moment in moments):
                    return moments
        except (TypeError, ValueError):
            pass
        return [self.time_from(value) for value in values]

    def list_value(self, items: Sequence[str]) -> str:
        return encode(list(items))

    # -- expressions -----------------------------------------------------------------------

    def insert(self, table: Table) -> Any:
        return insert(table)

    def json_in(self, parameter: BindParameter[Any]) -> ColumnElement[Any]:
        return func.jsonb(parameter)

    def json_out(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        return case(
            (func.json_valid(column, _LOOKS_VALID), func.json(column)),
            (func.typeof(column) == literal_column("'blob'"), func.hex(column)),
            else_=column,
        )

    def raw_bytes(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        return cast(column, _Blob())

    def json_at(self, column: ColumnElement[Any], *path: str) -> ColumnElement[Any]:
        return func.json_extract(column, literal_column(f"'{json_path(*path)}'"))

    def json_has(self, column: ColumnElement[Any], *path: str) -> ColumnElement[bool]:
        return func.json_type(column, literal_column(f"'{json_path(*path)}'")).is_not(None)

    def json_text_at(self, column: ColumnElement[Any], *path: str) -> ColumnElement[Any]:
        return column.op("->")(literal_column(f"'{json_path(*path)}'"))

    def text_json_at(self, column: ColumnElement[Any], *path: str) -> ColumnElement[Any]:
        return case((func.json_valid(column), self.json_text_at(column, *path)), else_=null())

    def json_without(self, column: ColumnElement[Any], *paths: Sequence[str]) -> ColumnElement[Any]:
        removed: list[ColumnElement[str]] = [
            literal_column(f"'{json_path(*path)}'") for path in paths
        ]
        return func.json(func.jsonb_remove(column, *removed))

    def json_valid(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        return func.json_valid(column, _IS_VALID)

    def when_valid(
        self, column: ColumnElement[Any], expression: ColumnElement[Any]
    ) -> ColumnElement[Any]:
        return case((self.json_valid(column), expression), else_=null())

    def member_values(self, key: str, parameter: str, value: Any) -> tuple[str, dict[str, Any]]:
        values: dict[str, Any] = {f"{parameter}_path": f'$."{key}"'}
        if value is None:
            return "null", values
        if isinstance(value, bool):
            return ("true" if value else "false"), values
        values[parameter] = value
        return ("text" if isinstance(value, str) else "number"), values

    def member_equals(
        self, column: ColumnElement[Any], parameter: str, shape: str
    ) -> ColumnElement[bool]:
        path: BindParameter[Any] = bindparam(f"{parameter}_path", required=True, type_=Text())
        kind = func.json_type(column, path)
        if shape in {"true", "false"}:
            return kind == literal_column(f"'{shape}'")
        if shape == "null":
            absent_too = func.coalesce(kind, literal_column("'null'"))
            return absent_too == literal_column("'null'")
        wanted: BindParameter[Any] = bindparam(parameter, required=True)
        kinds = "('text')" if shape == "text" else "('integer', 'real')"
        stored = func.json_extract(column, path)
        return and_(kind.op("IN")(literal_column(kinds)), stored == wanted)

    def any_suspended_thread(
        self, column: ColumnElement[Any], parameter: BindParameter[Any]
    ) -> ColumnElement[bool]:
        quoted = str(column.compile(dialect=self._compiler))
        condition = text(_SUSPENDED_THREAD.format(column=quoted, parameter=parameter.key))
        return or_(literal_column("0"), condition.self_group())

    def one_of(
        self, column: ColumnElement[Any], parameter: BindParameter[Any]
    ) -> ColumnElement[bool]:
        return column.in_(select(literal_column("value")).select_from(func.json_each(parameter)))

    def earliest(self, left: ColumnElement[Any], right: ColumnElement[Any]) -> ColumnElement[Any]:
        # The scalar min() is NULL if any of its arguments is.
        return func.min(func.coalesce(left, right), func.coalesce(right, left))

    def at_least_after(
        self, column: ColumnElement[Any], moment: BindParameter[Any]
    ) -> ColumnElement[Any]:
        later = func.strftime(
            literal_column("'%Y-%m-%dT%H:%M:%fZ'"), column, literal_column("'+0.001 seconds'")
        )
        return func.max(moment, func.coalesce(later, literal_column("''")))

    def contains_ignoring_case(
        self, column: ColumnElement[Any], parameter: BindParameter[Any]
    ) -> ColumnElement[bool]:
        return func.instr(func.lower(column), func.lower(parameter)) > literal_column("0")

    def row_id(self, table: Table) -> ColumnElement[Any]:
        return literal_column(f"{table.name}.rowid")

    def is_bad_json(self, error: BaseException) -> bool:
        return is_malformed_json(error)

    # -- transactions ----------------------------------------------------------------------

    def lock(self, scope: Sequence[str]) -> None:
        # A writing transaction of SQLite is alone in its database.
        return None

    def server_now(self) -> Statement | None:
        return self._server_now


_ISO_LENGTH = len("2026-01-31T08:00:00.000Z")


class _Blob(Text):
    """A cast target: the stored bytes, whatever their declared type."""

    __visit_name__ = "BLOB"
    cache_ok = True


def json_path(*path: str) -> str:
    """A fixed path in SQLite's spelling; members are plain names."""
    return "$" + "".join(f".{member}" for member in path)


def _server_now(compiler: Dialect) -> Statement:
    now: Column[Any] = func.strftime(  # type: ignore[assignment]  # a function is an expression, too
        literal_column("'%Y-%m-%dT%H:%M:%fZ'"), literal_column("'now'")
    )
    executable: Executable = select(now.label("now"))
    return compile_statement(executable, compiler, name="server_now", volatile=True)
