"""The executor as domain stores know it: open or closed, whatever is behind it."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from mastra_core.errors import StorageConnectionError
from mastra_sql.executor import Executor, Observer, ProgramFactory, Rows, Step

__all__ = ("Client", "Door")

T = TypeVar("T")


class Client(Executor, Protocol):
    """An executor with a life."""

    #: File or server, without secrets.
    where: str

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or never opened."""
        ...

    def held(self) -> dict[str, int]:
        """What it holds open right now, by kind: connections, waiting calls."""
        ...

    def observe(self, observer: Observer | None) -> None:
        """Call this for every statement from now on."""
        ...


C = TypeVar("C", bound=Client)


class Door(Generic[C]):
    """
    An executor that raises while its store is closed.

    Args:
        where: File or server, without secrets.
        error_id: The id of what it raises.
    """

    def __init__(self, where: str, *, error_id: str) -> None:
        self.where: str = where
        self.client: C | None = None
        #: The client that was behind it, so that what it still holds can be told.
        self._left: C | None = None
        self._error_id = error_id

    def opened(self) -> C:
        """The client behind the door."""
        if self.client is None:
            raise StorageConnectionError(
                f"The store of {self.where} is closed, or was not opened yet.",
                id=self._error_id,
                hint="Use it inside `async with`.",
            )
        return self.client

    def close(self) -> None:
        """From now on every call raises."""
        self._left = self.client or self._left
        self.client = None

    def held(self) -> dict[str, int]:
        """What the client holds open; nothing if it belongs to others now."""
        client = self.client
        if client is None and self._left is not None and self._left.is_closed:
            client = self._left
        return {"connections": 0, "waiting_calls": 0} if client is None else client.held()

    async def read(self, operation: str, *steps: Step) -> list[Rows]:
        return await (self.client or self.opened()).read(operation, *steps)

    async def write(self, operation: str, step: Step) -> Rows:
        return await (self.client or self.opened()).write(operation, step)

    async def transact(self, operation: str, program: ProgramFactory[T]) -> T:
        return await (self.client or self.opened()).transact(operation, program)
