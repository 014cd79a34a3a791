"""Writes of one topic go one after the other, and share a write while they wait (E4)."""

from __future__ import annotations

import asyncio
from collections import deque

from mastra_core.bus.driver import DirectDriver, Outgoing
from mastra_core.bus.runtime import BusRuntime

__all__ = ("Publisher",)

_Waiting = deque[tuple[Outgoing, "asyncio.Future[None]"]]


class Publisher:
    """Appends at once when nothing is on its way, and in batches otherwise."""

    def __init__(self, runtime: BusRuntime) -> None:
        self._runtime = runtime
        self._driver = runtime.driver
        self._direct = runtime.driver if isinstance(runtime.driver, DirectDriver) else None
        #: Topics with a write on its way, and what waits behind it.
        self._lanes: dict[str, _Waiting] = {}

    @property
    def is_idle(self) -> bool:
        """Whether every accepted event has been stored or refused."""
        return not self._lanes

    async def append(self, topic: str, outgoing: Outgoing) -> None:
        """Store one event; raises what the driver says about this one."""
        if self._direct is not None:
            self._direct.append_now(topic, outgoing)
            return
        lane = self._lanes.get(topic)
        if lane is None:
            await self._append_now(topic, outgoing)
            return
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lane.append((outgoing, stored))
        await stored

    async def _append_now(self, topic: str, outgoing: Outgoing) -> None:
        lane = self._lanes[topic] = deque()
        try:
            (error,) = await self._driver.append(topic, [outgoing])
        finally:
            if lane:
                self._runtime.spawn(self._drain(topic, lane), name="bus-publish")
            else:
                self._end(topic)
        if error is not None:
            raise error

    async def _drain(self, topic: str, lane: _Waiting) -> None:
        try:
            while lane:
                count = min(len(lane), self._runtime.settings.write_batch)
                await self._write(topic, [lane.popleft() for _ in range(count)])
        finally:
            self._end(topic)
            for _, stored in lane:
                stored.cancel()

    async def _write(self, topic: str, batch: list[tuple[Outgoing, asyncio.Future[None]]]) -> None:
        try:
            errors = await self._driver.append(topic, [outgoing for outgoing, _ in batch])
        except Exception as exc:  # noqa: BLE001 – every caller gets it
            errors = [exc] * len(batch)
        except asyncio.CancelledError:
            for _, stored in batch:
                stored.cancel()
            raise
        for (_, stored), error in zip(batch, errors, strict=True):
            if stored.done():
                continue
            if error is None:
                stored.set_result(None)
            else:
                stored.set_exception(error)

    def _end(self, topic: str) -> None:
        self._lanes.pop(topic, None)
        self._runtime.changes.tell()
