"""What differs between SQL databases, as one object that statements are built with.

Statements, rows and stores ask a dialect for an expression or a value; they know no database.
Connections and how statements reach a server are another room, see ``executor``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import BindParameter, ColumnElement, FromClause, Table
from sqlalchemy.dialects.postgresql import Insert as PostgresInsert
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert
from sqlalchemy.engine import Dialect

from mastra_sql.statement import Statement

__all__ = ("SqlDialect", "UpsertInsert")

#: An insert that knows ``on_conflict_do_update``; both databases spell it alike.
UpsertInsert = SqliteInsert | PostgresInsert


class SqlDialect(ABC):
    """JSON functions, times and the few statements that no standard covers."""

    #: Short name for messages and error ids, e.g. ``libsql``.
    store: ClassVar[str]

    #: Whether nobody else writes while a transaction that writes is open.
    is_alone: ClassVar[bool] = True

    @property
    @abstractmethod
    def compiler(self) -> Dialect:
        """The SQLAlchemy dialect that turns an expression into text."""

    # -- values ----------------------------------------------------------------------------

    @abstractmethod
    def time_value(self, moment: datetime) -> Any:
        """The instant as the driver takes it."""

    @abstractmethod
    def time_from(self, value: Any) -> datetime:
        """The aware UTC instant of a stored value."""

    def times_from(self, values: Sequence[Any]) -> list[datetime]:
        """
        The instants of many stored values.

        Raises:
            WireDecodeError: One of them is no time.
        """
        return [self.time_from(value) for value in values]

    @abstractmethod
    def list_value(self, items: Sequence[str]) -> Any:
        """A list of any length as one parameter, for ``one_of``."""

    # -- expressions -----------------------------------------------------------------------

    def time_out(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """A time column as it is read, compared and sorted; the column itself by default."""
        return column

    def time_read(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """A time column as it is selected, where that takes more than comparing it."""
        return self.time_out(column)

    def assignments(
        self, table: Table, values: Mapping[str, ColumnElement[Any]]
    ) -> dict[str, ColumnElement[Any]]:
        """What to write for these columns; a database with twin columns adds the twins."""
        return dict(values)

    @abstractmethod
    def insert(self, table: Table) -> Any:
        """An ``UpsertInsert`` into the table."""

    @abstractmethod
    def json_in(self, parameter: BindParameter[Any]) -> ColumnElement[Any]:
        """JSON text on its way into a JSON column."""

    @abstractmethod
    def json_out(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """A JSON column as JSON text; what is no JSON comes as the text that it is."""

    @abstractmethod
    def raw_bytes(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """The stored bytes of a JSON column; equal bytes mean that nobody wrote."""

    @abstractmethod
    def json_at(self, column: ColumnElement[Any], *path: str) -> ColumnElement[Any]:
        """The scalar at a fixed path of a JSON column; NULL where there is none."""

    @abstractmethod
    def json_has(self, column: ColumnElement[Any], *path: str) -> ColumnElement[bool]:
        """Whether anything stands at a fixed path of a JSON column."""

    @abstractmethod
    def json_text_at(self, column: ColumnElement[Any], *path: str) -> ColumnElement[Any]:
        """The JSON text of whatever stands at a fixed path; NULL where there is none."""

    @abstractmethod
    def text_json_at(self, column: ColumnElement[Any], *path: str) -> ColumnElement[Any]:
        """What stands at a fixed path of JSON in a text column, for ``member_equals``; NULL
        where there is none, or the text is no JSON."""

    @abstractmethod
    def json_without(self, column: ColumnElement[Any], *paths: Sequence[str]) -> ColumnElement[Any]:
        """A JSON column as JSON text, without what stands at these paths."""

    def unpacked(self, column: ColumnElement[Any]) -> tuple[ColumnElement[Any], FromClause | None]:
        """
        A JSON column for many looks into one document.

        Where each look would unpack the stored form anew, the second is a source to join, in
        which it is unpacked once per row.
        """
        return column, None

    @abstractmethod
    def json_valid(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """Whether the column holds JSON to its last byte."""

    @abstractmethod
    def when_valid(
        self, column: ColumnElement[Any], expression: ColumnElement[Any]
    ) -> ColumnElement[Any]:
        """The expression, or NULL where the column holds no JSON."""

    @abstractmethod
    def member_values(self, key: str, parameter: str, value: Any) -> tuple[str, dict[str, Any]]:
        """
        What ``member_equals`` needs for this key and value.

        Returns:
            A word for the shape of the condition, and its parameters: the condition of
            another value of the same shape differs in nothing but parameters.
        """

    @abstractmethod
    def member_equals(
        self, column: ColumnElement[Any], parameter: str, shape: str
    ) -> ColumnElement[bool]:
        """Whether a top-level member equals a scalar; None matches a missing member and null."""

    @abstractmethod
    def any_suspended_thread(
        self, column: ColumnElement[Any], parameter: BindParameter[Any]
    ) -> ColumnElement[bool]:
        """Whether any suspended step of a snapshot belongs to this thread (snapshots.md 4.4)."""

    @abstractmethod
    def one_of(
        self, column: ColumnElement[Any], parameter: BindParameter[Any]
    ) -> ColumnElement[bool]:
        """Membership in a list that is one parameter, whatever its length."""

    @abstractmethod
    def earliest(self, left: ColumnElement[Any], right: ColumnElement[Any]) -> ColumnElement[Any]:
        """The smaller of both that isn't NULL."""

    @abstractmethod
    def at_least_after(
        self, column: ColumnElement[Any], moment: BindParameter[Any]
    ) -> ColumnElement[Any]:
        """``max(moment, column + 1 ms)``, so that a stored time never goes back (G14)."""

    @abstractmethod
    def contains_ignoring_case(
        self, column: ColumnElement[Any], parameter: BindParameter[Any]
    ) -> ColumnElement[bool]:
        """Literal substring, ignoring the case of ASCII letters at least."""

    @abstractmethod
    def row_id(self, table: Table) -> ColumnElement[Any]:
        """What tells apart rows that are equal in every column."""

    @abstractmethod
    def is_bad_json(self, error: BaseException) -> bool:
        """Whether a statement failed because some row holds no JSON."""

    # -- transactions ----------------------------------------------------------------------

    @abstractmethod
    def lock(self, scope: Sequence[str]) -> tuple[Statement, tuple[Any, ...]] | None:
        """A statement that keeps others out of this scope until the transaction ends.

        None where every writing transaction is alone anyway.
        """

    @abstractmethod
    def server_now(self) -> Statement | None:
        """A statement that tells the store's own time; None where it is the injected clock."""

    def now_inside(self) -> ColumnElement[Any] | None:
        """The store's own time inside of a statement, where that saves asking for it first."""
        return None
