"""How statements reach a database: the protocol, and what a transaction looks like.

A transaction is a *program*: a generator that yields statements and gets their rows. It
waits for nothing and knows no driver, so the same one runs inside a worker thread, over an
asynchronous connection, or optimistically where a server has no interactive transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from mastra_core.base.pace import Pace
from mastra_sql.statement import Statement

__all__ = (
    "Executed",
    "Executor",
    "Observer",
    "PacedExecutor",
    "Program",
    "ProgramFactory",
    "Row",
    "Rows",
    "Step",
    "atomic",
    "read_program",
)

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = list[Row]
T = TypeVar("T")


class Step(NamedTuple):
    """One statement with its values in order."""

    statement: Statement
    values: tuple[Any, ...] = ()

    @classmethod
    def of(cls, statement: Statement, values: Mapping[str, Any]) -> Step:
        """The statement with its values taken by name."""
        return cls(statement, statement.bind(values))


#: Reads first, as often as needed; then one yield with all writes; then the result.
Program: TypeAlias = Generator[Sequence[Step], list[Rows], T]
ProgramFactory: TypeAlias = Callable[[], Program[T]]


@dataclass(frozen=True, slots=True)
class Executed:
    """One statement that ran, for observers."""

    statement: str
    sql: str
    rows: int
    #: Whole documents among the rows.
    documents: int


Observer: TypeAlias = Callable[[Executed], None]
"""Called after every statement, in whatever thread ran it; must not raise or wait."""


class Executor(Protocol):
    """
    Runs statements for one store.

    Duties: each call is atomic; a caller that is cancelled harms nobody else and leaves no
    transaction or lock; only ``StorageError`` (with the driver's exception as cause) and
    what a program itself raises come out.
    """

    async def read(self, operation: str, *steps: Step) -> list[Rows]:
        """The rows of each statement, all of one state of the database."""
        ...

    async def write(self, operation: str, step: Step) -> Rows:
        """Run one writing statement and return its rows."""
        ...

    async def transact(self, operation: str, program: ProgramFactory[T]) -> T:
        """
        Run a program in one transaction that no other writer gets into.

        The factory may be called again if the first attempt lost a race or its transaction
        was rolled back by the database; whatever the program raises rolls back.
        """
        ...


class PacedExecutor:
    """An executor whose calls wait for their turn, so that the event loop gets around."""

    def __init__(self, executor: Executor, pace: Pace) -> None:
        self._executor = executor
        self._turn = pace.turn

    async def read(self, operation: str, *steps: Step) -> list[Rows]:
        await self._turn()
        return await self._executor.read(operation, *steps)

    async def write(self, operation: str, step: Step) -> Rows:
        await self._turn()
        return await self._executor.write(operation, step)

    async def transact(self, operation: str, program: ProgramFactory[T]) -> T:
        await self._turn()
        return await self._executor.transact(operation, program)


def atomic(*steps: Step) -> ProgramFactory[list[Rows]]:
    """A program that only runs these statements: all or none."""

    def program() -> Program[list[Rows]]:
        return (yield steps)

    return program


async def read_program(executor: Executor, operation: str, program: ProgramFactory[T]) -> T:
    """Run a program that only reads, without any lock; it may see several states."""
    running = program()
    try:
        steps = next(running)
        while True:
            steps = running.send(await executor.read(operation, *steps))
    except StopIteration as finished:
        result: T = finished.value
        return result
