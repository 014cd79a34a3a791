"""Writes that carry the fence of a lease, on SQL (pubsub_and_lease.md 6.4, L9)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from mastra_core.contracts.pubsub import FenceToken
from mastra_core.errors import FencedOutError, StorageError
from mastra_sql.executor import Program, ProgramFactory, Rows, Step, atomic
from mastra_sql.statements.fences import FenceStatements
from mastra_sql.storage.host import SqlHost

__all__ = ("GUARDED_WRITES", "GuardedExecutor", "fenced")

GUARDED_WRITES: Final = "storage.guarded_writes"
"""The capability."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedExecutor:
    """An executor for the owner of a lease: what it writes carries his fence."""

    host: SqlHost
    statements: FenceStatements
    fence: FenceToken

    async def read(self, operation: str, *steps: Step) -> list[Rows]:
        return await self.host.run.read(operation, *steps)

    async def write(self, operation: str, step: Step) -> Rows:
        return (await self.transact(operation, atomic(step)))[0]

    async def transact(self, operation: str, program: ProgramFactory[T]) -> T:
        guarded = fenced(self._raise(), program)
        return await self._unless_old(self.host.run.transact(operation, guarded))

    async def raise_fence(self) -> None:
        """
        Write nothing but the fence.

        Raises:
            FencedOutError: A newer one is known.
        """
        await self._unless_old(self.host.run.write("raise_fence", self._raise()))

    @property
    def _key(self) -> str:
        # Keys of threads hold a NUL, which not every database keeps.
        return self.fence[0].replace("\\", "\\\\").replace("\0", "\\0")

    def _raise(self) -> Step:
        now = self.host.dialect.time_value(self.host.clock.now())
        values = {"key": self._key, "token": self.fence[1], "updatedAt": now}
        return Step.of(self.statements.raise_fence(), values)

    async def _unless_old(self, written: Awaitable[T]) -> T:
        try:
            return await written
        except StorageError as exc:
            if self.statements.tables.fences.name not in str(exc.__cause__):
                raise
            newest = await self._newest()
            if newest is None or newest <= self.fence[1]:
                raise
            key, token = self.fence
            raise FencedOutError(key=key, fence=token, current=newest) from exc

    async def _newest(self) -> int | None:
        step = Step.of(self.statements.newest(), {"key": self._key})
        [rows] = await self.host.run.read("raise_fence", step)
        return int(rows[0][0]) if rows else None


def fenced(fence: Step, program: ProgramFactory[T]) -> Callable[[], Program[T]]:
    """The program, with this step in front of its writes."""

    def running() -> Program[T]:
        inner: Any = program()
        try:
            steps = next(inner)
            while True:
                if any(step.statement.writes for step in steps):
                    results = (yield (fence, *steps))[1:]
                else:
                    results = yield steps
                steps = inner.send(results)
        except StopIteration as finished:
            return finished.value  # type: ignore[no-any-return]  # a program's result
        finally:
            inner.close()

    return running
