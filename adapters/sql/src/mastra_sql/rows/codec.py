"""One table's rows as models and back.

A row is a tuple in the order of the table's columns. Reading skips pydantic's validation,
which costs more than the query: every value was converted by its column's kind already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from operator import itemgetter
from typing import Any, Generic, TypeVar

from pydantic import BaseModel
from sqlalchemy import Column, Table

from mastra_core.base.jsonjs import decode, encode
from mastra_core.errors import StorageDataError, WireDecodeError
from mastra_core.wire.base import trusted
from mastra_sql.dialect import SqlDialect
from mastra_sql.executor import Row
from mastra_sql.tables import ColumnKind, column_kind, data_columns

__all__ = ("RowCodec",)

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=BaseModel)


class RowCodec(Generic[M]):
    """Converts between the rows of one table and one model."""

    def __init__(self, model: type[M], table: Table, dialect: SqlDialect) -> None:
        self._model = model
        self._table = table.name
        fields = _fields_by_column(model, table)
        columns = data_columns(table)
        self._names = tuple(column.name for column in columns)
        self._fields = tuple(fields[column.name] for column in columns)
        self._required = frozenset(fields[c.name] for c in columns if not c.nullable)
        self._readers = _special(columns, fields, lambda c: _reader(c, dialect))
        #: By field: the column and how to write a value that isn't plain.
        self._writers: dict[str, tuple[str, Callable[[Any], Any] | None]] = {
            fields[column.name]: (column.name, _writer(column, dialect)) for column in columns
        }
        self._special_writers = [
            (name, write) for name, write in self._writers.values() if write is not None
        ]
        self._take = itemgetter(*self._fields)
        defaults = {
            name: None if info.is_required() else info.get_default(call_default_factory=True)
            for name, info in model.model_fields.items()
        }
        #: All fields, in the order of the model.
        self._order = tuple(defaults)
        #: Fields without a column, which have their defaults.
        self._columnless = frozenset(defaults.keys() - set(self._fields))
        self._constants = tuple(defaults[field] for field in sorted(self._columnless))
        places = [*self._fields, *sorted(self._columnless)]
        #: A row and the constants behind it, in the order of the model.
        self._arrange = itemgetter(*map(places.index, self._order))
        #: What a NULL means where the model has another default than None.
        self._defaults = [
            (field, default) for field in self._fields if (default := defaults[field]) is not None
        ]

    def model(self, row: Row) -> M:
        """
        The model of one row.

        Raises:
            StorageDataError: A value isn't what its column should hold.
        """
        values = dict(zip(self._order, self._arrange((*row, *self._constants)), strict=True))
        given = {field for field, value in values.items() if value is not None}
        if self._columnless:
            given -= self._columnless
        try:
            for field, read in self._readers:
                value = values[field]
                if value is not None:
                    values[field] = read(value)
            if not self._required <= given:
                raise WireDecodeError(f"{min(self._required - given)} is NULL.")
        except (WireDecodeError, ValueError, TypeError) as exc:
            raise StorageDataError(
                f"A row of {self._table!r} can't be read: {exc}",
                details={"table": self._table, "row": str(row[0])},
            ) from exc
        for field, default in self._defaults:
            if values[field] is None:
                values[field] = default
        return trusted(self._model, values, given)

    def models(self, rows: Iterable[Row]) -> list[M]:
        """The models of many rows; one that can't be read is left out, with a warning."""
        found: list[M] = []
        for row in rows:
            try:
                found.append(self.model(row))
            except StorageDataError as exc:
                logger.warning("unreadable row left out", extra={"error": str(exc)})
        return found

    def values(self, model: M) -> dict[str, Any]:
        """Parameters of all columns, by column name."""
        found = dict(zip(self._names, self._take(model.__dict__), strict=True))
        for name, write in self._special_writers:
            value = found[name]
            if value is not None:
                found[name] = write(value)
        return found

    def changes(self, before: M, after: M) -> dict[str, Any]:
        """Parameters of the columns whose value differs; a JSON value is one if it is another
        object, since ``1`` and ``true`` are equal to Python but not to JSON."""
        old = before.__dict__
        found: dict[str, Any] = {}
        for field, value in after.__dict__.items():
            # Most values are the same objects.
            if value is old[field] or field in self._columnless:
                continue
            column, write = self._writers[field]
            if write is encode or value != old[field]:
                found[column] = value if write is None or value is None else write(value)
        return found

    def given(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters for these fields (Python names), by column name."""
        found: dict[str, Any] = {}
        for field, value in fields.items():
            column, write = self._writers[field]
            found[column] = value if write is None or value is None else write(value)
        return found


def _special(
    columns: Iterable[Column[Any]],
    fields: Mapping[str, str],
    convert: Callable[[Column[Any]], Callable[[Any], Any] | None],
) -> list[tuple[str, Callable[[Any], Any]]]:
    """Fields whose values aren't taken as they are, with what is done to them."""
    found = [(fields[column.name], convert(column)) for column in columns]
    return [(field, function) for field, function in found if function is not None]


def _fields_by_column(model: type[BaseModel], table: Table) -> dict[str, str]:
    by_alias = {info.alias or name: name for name, info in model.model_fields.items()}
    return {
        column.name: column.name if column.name in model.model_fields else by_alias[column.name]
        for column in data_columns(table)
    }


def _reader(column: Column[Any], dialect: SqlDialect) -> Callable[[Any], Any] | None:
    match column_kind(column):
        case ColumnKind.JSON:
            return decode
        case ColumnKind.TIME:
            return dialect.time_from
        case ColumnKind.TEXT | ColumnKind.INTEGER | ColumnKind.TWIN:
            return None


def _writer(column: Column[Any], dialect: SqlDialect) -> Callable[[Any], Any] | None:
    match column_kind(column):
        case ColumnKind.JSON:
            return encode
        case ColumnKind.TIME:
            time_value: Callable[[datetime], Any] = dialect.time_value
            return time_value
        case ColumnKind.TEXT | ColumnKind.INTEGER | ColumnKind.TWIN:
            return None
