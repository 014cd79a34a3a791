"""The server: ``python server.py PORT FOLDER [FAULT…]``.

Every call that may change something is in the log before it is answered; a new start
plays the log again, with the times of then.
"""

from __future__ import annotations

import asyncio
import inspect
import pickle
import sys
import time
from asyncio import StreamReader, StreamWriter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mastra_core.base.ids import UuidIds
from mastra_core.base.isotime import truncate_ms
from mastra_core.inmemory.hub import Hub, HubLimits
from mastra_core.inmemory.pubsub import MemoryDriver
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.inmemory.topic_log import LogLimits
from mastra_core.plugins import AdapterContext

sys.path.insert(0, str(Path(__file__).parent.parent))

from toynet.frames import pack, unpack

_READS = ("get", "list", "read", "locate", "load", "record", "ping", "check")


class LogClock:
    """The time of the host, or of the log while it is played."""

    def __init__(self) -> None:
        self.fixed: float | None = None

    def monotonic(self) -> float:
        """Seconds since 1970, since they must go on after a restart."""
        return self.fixed if self.fixed is not None else time.time()

    def now_ms(self) -> int:
        return int(self.monotonic() * 1000)

    def now(self) -> datetime:
        return truncate_ms(datetime.fromtimestamp(self.monotonic(), UTC))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Server:
    """One namespace after the other in memory, and the log."""

    def __init__(self, folder: Path, faults: frozenset[str]) -> None:
        self.clock = LogClock()
        self.faults = faults
        self.path = folder / "calls.log"
        self.lock = asyncio.Lock()
        self.log: Any = None
        self.rooms: dict[str, dict[str, Any]] = {}

    async def open(self) -> None:
        """Play the log, then write on."""
        if self.path.exists():
            with self.path.open("rb") as log:
                while True:
                    try:
                        at, call = pickle.load(log)
                    except (EOFError, pickle.UnpicklingError):
                        break
                    self.clock.fixed = at
                    if "amnesiac" in self.faults and call[1].startswith("leases."):
                        continue
                    await self.carry_out(call)
            self.clock.fixed = None
        self.log = self.path.open("ab", buffering=1 << 20 if "forgetful" in self.faults else 0)

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Answer one client."""
        try:
            while True:
                number, call = await unpack(reader)
                async with self.lock:
                    answer = await self.answer(call)
                writer.write(pack((number, *answer)))
                await writer.drain()
        except (OSError, EOFError):
            writer.transport.abort()

    async def answer(self, call: tuple[Any, ...]) -> tuple[bool, Any]:
        """Log it, do it at the time that is in the log, and say what came of it."""
        self.clock.fixed = at = time.time()
        try:
            if not call[1].rpartition(".")[2].startswith(_READS):
                self.log.write(pickle.dumps((at, call)))
            return await self.carry_out(call)
        finally:
            self.clock.fixed = None

    async def carry_out(self, call: tuple[Any, ...]) -> tuple[bool, Any]:
        """Do it; (True, result) or (False, exception)."""
        namespace, path, arguments, options = call
        room, _, name = path.partition(".")
        try:
            target = await self.room(namespace, room)
            for part in name.split("."):
                target = getattr(target, part)
            result = target(*arguments, **options)
            if inspect.isawaitable(result):
                result = await result
        except Exception as exc:  # noqa: BLE001 – the client gets whatever it is
            return False, exc
        return True, result

    async def room(self, namespace: str, name: str) -> Any:
        """The bus, the leases or the store of one namespace."""
        if namespace not in self.rooms:
            limits = HubLimits(log=LogLimits())
            hub = Hub(self.clock, limits)
            driver = MemoryDriver(self.clock, UuidIds(), hub)
            await driver.open()
            store = InMemoryStorage(None, AdapterContext(clock=self.clock))
            self.rooms[namespace] = {"bus": driver, "leases": hub.leases, "store": store}
        return self.rooms[namespace][name]


async def main(port: int, folder: Path, faults: frozenset[str]) -> None:
    """Serve until killed."""
    server = Server(folder, faults)
    await server.open()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", port)
    async with listener:
        await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2]), frozenset(sys.argv[3:])))
