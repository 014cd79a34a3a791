"""Writers of one row that come at the same time, served by one of them (perf.md, lever 4).

The first one starts at once. Who comes while it is at work waits, and then all who wait are
served together, in one transaction, each with its own result or error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

__all__ = ("Coalescer",)

K = TypeVar("K", bound=Hashable)
Item = TypeVar("Item")
R = TypeVar("R")

_Waiting = list[tuple[Item, "asyncio.Future[R]"]]


class Coalescer(Generic[K, Item, R]):
    """
    Serves items of one key together.

    Args:
        serve: Gets a key and its items, and returns one result or exception for each; what
            it raises itself is everybody's error.
    """

    def __init__(
        self, serve: Callable[[K, Sequence[Item]], Awaitable[Sequence[R | Exception]]]
    ) -> None:
        self._serve = serve
        #: Who waits for the leader of a key; a key is here as long as it has a leader.
        self._waiting: dict[K, _Waiting[Item, R]] = {}
        self._leaders: set[asyncio.Task[None]] = set()

    async def submit(self, key: K, item: Item) -> R:
        """The result of one item; cancelling harms no other."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.get(key)
        if waiting is None:
            # no await between looking and leading
            self._waiting[key] = [(item, future)]
            leader = asyncio.create_task(self._lead(key), name=f"coalesce:{key}")
            self._leaders.add(leader)
            leader.add_done_callback(self._leaders.discard)
        else:
            waiting.append((item, future))
        return await future

    async def _lead(self, key: K) -> None:
        """Serve those who wait until nobody does."""
        while waiting := [pair for pair in self._waiting[key] if not pair[1].done()]:
            self._waiting[key] = []
            await self._serve_together(key, waiting)
        del self._waiting[key]

    async def _serve_together(self, key: K, waiting: _Waiting[Item, R]) -> None:
        try:
            results = await self._serve(key, [item for item, _ in waiting])
        except BaseException as exc:
            for _, future in waiting:
                if not future.done():
                    future.set_exception(_for_others(exc))
            if not isinstance(exc, Exception):
                # Cancelled: nobody leads any more, so nobody may wait.
                self._give_up(key, exc)
                raise
            return
        for (_, future), result in zip(waiting, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

    def _give_up(self, key: K, exc: BaseException) -> None:
        for _, future in self._waiting.pop(key, []):
            if not future.done():
                future.set_exception(_for_others(exc))


def _for_others(exc: BaseException) -> Exception:
    """What those hear who weren't the cause."""
    if isinstance(exc, Exception):
        return exc
    return ConnectionAbortedError("The writer that served this one was stopped.")
