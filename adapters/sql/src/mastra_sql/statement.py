"""Statements as text: each shape is compiled once, then only bound.

SQLAlchemy builds every statement, but nothing of it runs per call: a compiled statement is
its text, the order of its parameters and the names of its result columns.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, cast

from sqlalchemy import Executable
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.compiler import SQLCompiler

__all__ = (
    "TWICE",
    "Binder",
    "Statement",
    "StatementCache",
    "compile_statement",
    "plain",
)

TWICE = "__twice"
"""Behind a parameter's name: the same value once more, for a place of another type."""

Binder = Callable[[Mapping[str, Any]], tuple[Any, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One shape of a statement, ready for the driver."""

    name: str
    sql: str
    #: Parameter names in the order of their placeholders.
    parameters: tuple[str, ...]
    #: Names of the result columns; empty for a statement without rows.
    columns: tuple[str, ...]
    writes: bool
    #: True if its rows carry whole documents (snapshots), for those who count them.
    documents: bool
    #: True if its rows differ every time, so that they prove nothing about the database.
    volatile: bool
    bind: Binder = field(repr=False)
    """The values of a mapping in the order of the placeholders."""


class StatementCache:
    """Statements by shape; compiled when a shape is first asked for."""

    __slots__ = ("_compiler", "_statements")

    def __init__(self, compiler: Dialect) -> None:
        self._compiler = compiler
        self._statements: dict[Hashable, Statement] = {}

    def get(
        self,
        key: Hashable,
        build: Callable[[], Executable],
        *,
        name: str,
        documents: bool = False,
    ) -> Statement:
        """The statement of this shape; ``build`` makes it if it is new."""
        statement = self._statements.get(key)
        if statement is None:
            statement = compile_statement(build(), self._compiler, name=name, documents=documents)
            self._statements[key] = statement
        return statement

    def __len__(self) -> int:
        return len(self._statements)

    def __iter__(self) -> Iterator[Statement]:
        return iter(tuple(self._statements.values()))


def compile_statement(
    executable: Executable,
    compiler: Dialect,
    *,
    name: str,
    documents: bool = False,
    volatile: bool = False,
) -> Statement:
    """Turn an expression into text and the order of its parameters."""
    # Executables of the Core are ClauseElements; only the annotation of the base class is wider.
    compiled = cast(SQLCompiler, cast(Any, executable).compile(dialect=compiler))
    order = tuple(compiled.positiontup or ())
    names = tuple(name.removesuffix(TWICE) for name in order)
    fixed = {
        name: bind.value
        for name, bind in compiled.binds.items()
        if name in order and not bind.required and bind.value is not None
    }
    columns = tuple(entry[0] for entry in compiled._result_columns)  # noqa: SLF001 - no public name
    return Statement(
        name=name,
        sql=str(compiled),
        parameters=names,
        columns=columns,
        writes=bool(compiled.isinsert or compiled.isupdate or compiled.isdelete),
        documents=documents,
        volatile=volatile,
        bind=_binder(names, fixed),
    )


def plain(
    sql: str, *, parameters: Sequence[str] = (), columns: Sequence[str] = (), writes: bool = False
) -> Statement:
    """A statement that is text already; its values are given in order."""
    return Statement(
        name="plain",
        sql=sql,
        parameters=tuple(parameters),
        columns=tuple(columns),
        writes=writes,
        documents=False,
        volatile=False,
        bind=lambda values: tuple(values[name] for name in parameters),
    )


def _binder(order: tuple[str, ...], fixed: Mapping[str, Any]) -> Binder:
    if not order:
        return lambda _: ()
    if len(order) == 1:
        only = order[0]
        take: Binder = lambda values: (values[only],)  # noqa: E731 - one of two binders
    else:
        # Several names: itemgetter gives a tuple.
        take = cast(Binder, itemgetter(*order))
    if fixed:
        return lambda values: take({**fixed, **values})
    return take
