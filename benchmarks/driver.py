"""What the operations need of a database: our store, and its driver used plainly.

One module per driver says how calls of ours are taken down as statements, and how the raw driver
repeats them on tables of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from itertools import count
from typing import Any, ClassVar, NamedTuple

from harness import Call
from templates import Moment, Reader, Taken, Varying

from mastra_core.base.clock import SystemClock

__all__ = ("Driver", "Floors", "SqlTape", "Statements")


class Floors(NamedTuple):
    """The same statements, for one caller and for many at once."""

    alone: Call
    shared: Call


class Driver(ABC):
    """One open database: ours, and the plain driver beside it."""

    #: The backend as the goals name it.
    backend: ClassVar[str]
    #: What the floor is, for the table.
    plain: ClassVar[str]

    #: Ours, and a store on the tables of the plain driver.
    store: Any
    other: Any
    lease: Any
    #: Two buses that share nothing but the database.
    bus: Any
    far_bus: Any
    #: Where other processes find ours: the store; the bus with its leases.
    store_url: str
    bus_url: str

    async def on_both(self, call: Callable[[Any], Awaitable[Any]]) -> None:
        """Do something to both sets of tables."""
        await call(self.store)
        await call(self.other)

    @abstractmethod
    async def floors(self, call: Call, varying: Varying) -> Floors:
        """The statements of a call, repeated by the plain driver."""

    @abstractmethod
    def hearing(self) -> AbstractAsyncContextManager[Call]:
        """A call that writes an event plainly, and ends when another connection has read it."""

    @abstractmethod
    async def server_version(self) -> tuple[str, str]:
        """Product and version."""


Statements = list[tuple[bool, list[tuple[str, Sequence[Any]]]]]
"""Statements with their values; True before those that are one transaction."""


class SqlTape:
    """Takes down the statements of one call, with their values, in their transactions."""

    def __init__(self, *, read: Any, write: Any, transact: Any) -> None:
        self._read = read
        self._write = write
        self._transact = transact
        self.taken: list[tuple[bool, list[Any]]] = []
        self.began: datetime = SystemClock().now()

    async def read(self, operation: str, *steps: Any) -> Any:
        """Take it down."""
        self.taken.append((False, list(steps)))
        return await self._read(operation, *steps)

    async def write(self, operation: str, step: Any) -> Any:
        """Take it down."""
        self.taken.append((False, [step]))
        return await self._write(operation, step)

    async def transact(self, operation: str, program: Any, **options: Any) -> Any:
        """Take down what the program asks for."""
        steps: list[Any] = []
        self.taken.append((True, steps))

        def recorded() -> Any:
            steps.clear()
            running = program()
            try:
                wanted = next(running)
                while True:
                    steps.extend(wanted)
                    wanted = running.send((yield wanted))
            except StopIteration as finished:
                return finished.value

        return await self._transact(operation, recorded, **options)

    def repeated(
        self,
        varying: Varying,
        run: Callable[[Statements], Awaitable[list[list[Any]]]],
        *,
        rewrite: Callable[[str, bool], str] = lambda sql, _: sql,
    ) -> Call:
        """
        A call that runs what was taken down, and reads the documents among the rows.

        Args:
            varying: See ``templates``.
            run: The plain driver.
            rewrite: The text of a statement, and whether it is part of a transaction.
        """
        taken = Taken(self.began, varying)
        plans = [
            (is_one, [(rewrite(step.statement.sql, is_one), *_plan(taken, step)) for step in steps])
            for is_one, steps in self.taken
        ]
        numbers = count(1)
        readers = [Reader() for _, steps in plans for _ in steps]

        async def plainly() -> list[list[Any]]:
            moment = Moment(next(numbers))
            bound = [
                (is_one, [(sql, _filled(values, makers, moment)) for sql, values, makers in steps])
                for is_one, steps in plans
            ]
            found = await run(bound)
            return [read(rows) for read, rows in zip(readers, found, strict=True)]

        return plainly


Makers = list[tuple[int, Callable[[Moment], Any]]]


def _plan(taken: Taken, step: Any) -> tuple[Sequence[Any], Makers]:
    makers = [(i, made) for i, one in enumerate(step.values) if (made := taken.maker(one))]
    return step.values, makers


def _filled(values: Sequence[Any], makers: Makers, moment: Moment) -> Sequence[Any]:
    if not makers:
        return values
    own = list(values)
    for place, made in makers:
        own[place] = made(moment)
    return own
