"""What differs between SQL databases for the bus and for leases: time, lists, names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Table,
    Text,
    bindparam,
    cast,
    literal_column,
)
from sqlalchemy.engine import Dialect

from mastra_core.base.jsonjs import encode
from mastra_sql.dialect import SqlDialect
from mastra_sql.tables import ColumnKind

__all__ = ("BusDialect", "listed", "number", "words")


def words(name: str) -> ColumnElement[Any]:
    """A text that is bound with every call; the server is told what it is."""
    bound: BindParameter[Any] = bindparam(name, required=True, type_=Text())
    return cast(bound, Text())


def number(name: str) -> ColumnElement[Any]:
    """A number that is bound with every call."""
    bound: BindParameter[Any] = bindparam(name, required=True, type_=BigInteger())
    return cast(bound, BigInteger())


def listed(name: str) -> BindParameter[Any]:
    """A list that is one parameter, in the form of the dialect."""
    return bindparam(name, required=True, type_=Text())


class BusDialect(ABC):
    """
    Expressions of one database.

    Every instant is the database's own: it is taken inside the statement that needs it, and
    no client's clock decides about anything (L2).
    """

    #: How an instant is kept.
    time_kind: ClassVar[ColumnKind]

    def __init__(self, sql: SqlDialect) -> None:
        self.sql = sql

    @property
    def compiler(self) -> Dialect:
        """The SQLAlchemy dialect that turns an expression into text."""
        return self.sql.compiler

    # -- time ------------------------------------------------------------------------------

    @abstractmethod
    def now(self) -> ColumnElement[Any]:
        """This instant, as columns keep it."""

    @abstractmethod
    def now_us(self) -> ColumnElement[int]:
        """This instant in microseconds since 1970."""

    @abstractmethod
    def later(self, milliseconds: ColumnElement[Any]) -> ColumnElement[Any]:
        """The instant in so many milliseconds; a negative number lies in the past."""

    @abstractmethod
    def epoch_ms(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        """The instant of a column in milliseconds since 1970."""

    @abstractmethod
    def left_ms(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        """Milliseconds from now to the instant of a column, rounded up."""

    def incarnation(self) -> ColumnElement[Any] | None:
        """This start of the machine; None where a server keeps the time."""
        return None

    # -- expressions -----------------------------------------------------------------------

    def insert(self, table: Table) -> Any:
        """An insert that knows ``on_conflict_do_update``."""
        return self.sql.insert(table)

    @abstractmethod
    def larger(self, left: ColumnElement[Any], right: ColumnElement[Any]) -> ColumnElement[Any]:
        """The larger of two numbers; NULL counts as nothing."""

    @abstractmethod
    def smaller(self, left: ColumnElement[Any], right: ColumnElement[Any]) -> ColumnElement[Any]:
        """The smaller of two numbers; NULL counts as nothing."""

    @abstractmethod
    def one_of_numbers(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """Membership in a list of numbers that is one parameter, see ``numbers_value``."""

    @abstractmethod
    def held(self, pending: Table, name: str) -> ColumnElement[bool]:
        """Whether (epoch, seq, attempt) of a row is in a list that is one parameter."""

    def column_of(self, table: Table, name: str) -> ColumnElement[Any]:
        """A column with its table, also where SQLAlchemy would leave that out (RETURNING)."""
        prefix = self.compiler.identifier_preparer.format_table(table)
        return literal_column(f'{prefix}."{name}"')

    def numbers_value(self, numbers: Sequence[int]) -> Any:
        """A list for ``one_of_numbers``."""
        return encode(list(numbers))

    def held_value(self, held: Sequence[tuple[int, int, int]]) -> Any:
        """A list for ``held``."""
        return encode([list(one) for one in held])

    # -- names -----------------------------------------------------------------------------

    def text_of(self, name: str) -> str:
        """A topic, key, id or owner as this database can keep it; different stay different."""
        return name

    def name_of(self, text: str) -> str:
        """The opposite of ``text_of``."""
        return text
