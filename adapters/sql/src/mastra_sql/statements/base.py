"""What the statements of all domains have in common: columns as they are read and written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Executable,
    FromClause,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    delete,
    func,
    literal_column,
    select,
    update,
)

from mastra_sql.dialect import SqlDialect
from mastra_sql.statement import Statement, StatementCache
from mastra_sql.tables import ColumnKind, Tables, column_kind, data_columns

__all__ = (
    "StatementSet",
    "equal",
    "parameter",
)


def parameter(name: str) -> BindParameter[Any]:
    """A value that is bound with every call."""
    return bindparam(name, required=True, type_=Text())


class StatementSet:
    """Statements of one domain for one dialect; each shape is compiled when first used."""

    #: Name of the domain, in front of every statement's name.
    domain = ""

    def __init__(self, dialect: SqlDialect, tables: Tables) -> None:
        self.dialect = dialect
        self.tables = tables
        self._cache = StatementCache(dialect.compiler)

    def _shape(
        self,
        name: str,
        build: Callable[[], Executable],
        *key: Hashable,
        documents: bool = False,
    ) -> Statement:
        """The statement of this name and shape."""
        return self._cache.get(
            (name, *key), build, name=f"{self.domain}.{name}", documents=documents
        )

    # -- columns ---------------------------------------------------------------------------

    def readable(self, column: Column[Any], source: FromClause | None = None) -> ColumnElement[Any]:
        """The column as it is selected, from its table or an alias of it."""
        found: ColumnElement[Any] = column if source is None else source.c[column.name]
        match column_kind(column):
            case ColumnKind.JSON:
                return self.dialect.json_out(found).label(column.name)
            case ColumnKind.TIME:
                return self.dialect.time_read(found).label(column.name)
            case ColumnKind.TEXT | ColumnKind.INTEGER | ColumnKind.TWIN:
                return found

    def all_of(self, table: Table) -> list[ColumnElement[Any]]:
        """Every column as it is selected."""
        return [self.readable(column) for column in data_columns(table)]

    def writable(self, column: Column[Any], name: str | None = None) -> ColumnElement[Any]:
        """A parameter on its way into the column."""
        bound = parameter(name or column.name)
        if column_kind(column) is ColumnKind.JSON:
            return self.dialect.json_in(bound)
        return bound

    def new_values(
        self, table: Table, columns: Collection[str] | None = None
    ) -> dict[str, ColumnElement[Any]]:
        """Assignments of parameters to these columns, or to all."""
        values = {
            column.name: self.writable(column)
            for column in data_columns(table)
            if columns is None or column.name in columns
        }
        return self.dialect.assignments(table, values)

    # -- statements that every table needs -------------------------------------------------

    def upsert(
        self,
        table: Table,
        key: Collection[str],
        *,
        replaced: Iterable[str],
        where: ColumnElement[bool] | None = None,
    ) -> Any:
        """An insert that replaces these columns of an existing row."""
        statement = self.dialect.insert(table).values(self.new_values(table))
        replaced_values = {name: statement.excluded[name] for name in replaced}
        return statement.on_conflict_do_update(
            index_elements=[table.c[name] for name in key],
            set_=self.dialect.assignments(table, replaced_values),
            where=where,
        )

    def by_key(self, table: Table, *key: str) -> Select[Any]:
        """All columns of the row with this key; parameters are named like the columns."""
        return select(*self.all_of(table)).where(equal(table, *key))

    def change(self, table: Table, columns: Collection[str], *key: str) -> Any:
        """
        Set these columns of the row with this key.

        Parameters of the key are called ``key_<column>``, so that a key can be changed, too.
        """
        condition = and_(*(table.c[name] == parameter(f"key_{name}") for name in key))
        return update(table).where(condition).values(self.new_values(table, columns))

    def remove(self, table: Table, *key: str) -> Executable:
        """Delete the row with this key, and say whether there was one."""
        return delete(table).where(equal(table, *key)).returning(literal_column("1"))

    def clear(self, *tables: Table) -> list[Statement]:
        """Delete every row of these tables."""
        return [
            self._shape("clear", lambda table=table: delete(table), table.name)  # type: ignore[misc]
            for table in tables
        ]

    def prune(
        self, table: Table, anchor: str, condition: ColumnElement[bool] | None, shape: str
    ) -> Statement:
        """Delete at most ``batch`` rows whose anchor lies before ``before``."""

        def build() -> Executable:
            row_id = self.dialect.row_id(table)
            old = (
                select(row_id)
                .where(self._older(table, anchor, condition))
                .order_by(row_id)
                .limit(parameter("batch"))
            )
            return (
                delete(table)
                .where(row_id.in_(old.scalar_subquery()))
                .returning(literal_column("1"))
            )

        return self._shape("prune", build, table.name, shape)

    def count_old(
        self, table: Table, anchor: str, condition: ColumnElement[bool] | None, shape: str
    ) -> Statement:
        """How many rows ``prune`` would delete, all in all."""
        return self._shape(
            "count_old",
            lambda: (
                select(func.count()).select_from(table).where(self._older(table, anchor, condition))
            ),
            table.name,
            shape,
        )

    def _older(
        self, table: Table, anchor: str, condition: ColumnElement[bool] | None
    ) -> ColumnElement[bool]:
        older = self.dialect.time_out(table.c[anchor]) < parameter("before")
        return older if condition is None else and_(older, condition)


def equal(table: Table, *columns: str) -> ColumnElement[bool]:
    """Equality of these columns with parameters of their names."""
    return and_(*(table.c[name] == parameter(name) for name in columns))
