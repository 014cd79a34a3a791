"""Talk with a process of the TypeScript system: one JSON line out, one back."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

from mastra_conformance.node.packages import NodePlace
from mastra_core.base.isotime import parse_iso, to_iso_ms

__all__ = ("NodePeer", "NodePeerError", "node_peer")

_PROGRAM: Final = Path(__file__).with_name("peer.mjs")
#: Seconds for one order; Node imports its packages with the first.
_DEADLINE: Final = 60.0
_LINE_LIMIT: Final = 2**26


class NodePeerError(AssertionError):
    """What Node was told to do raised there."""

    def __init__(self, name: str, message: str, error_id: str | None) -> None:
        super().__init__(f"Node raised {name}: {message}")
        self.name = name
        self.message = message
        self.id = error_id


class NodePeer:
    """One running Node process; orders may be given at once, each gets its own answer."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reading = asyncio.get_running_loop().create_task(self._read(), name="node-peer")

    @property
    def pid(self) -> int:
        """Its process id, to kill or stop it."""
        return self._process.pid

    async def do(self, what: str, **order: object) -> Any:
        """
        Give an order of ``peer.mjs`` and wait for its value; times are aware datetimes.

        Raises:
            NodePeerError: It raised there.
            TimeoutError: No answer came.
            ConnectionError: The process has ended.
        """
        number = next(self._numbers)
        line = json.dumps({"id": number, "do": what, **_to_node(order)})
        answer = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        await self._process.stdin.drain()
        async with asyncio.timeout(_DEADLINE):
            message = await answer
        if (error := message.get("error")) is not None:
            raise NodePeerError(error["name"], error["message"], error["id"])
        return _from_node(message["value"])

    async def store(self, domain: str, method: str, *args: object) -> Any:
        """Call a method of one storage domain."""
        return await self.do("store", domain=domain, method=method, args=list(args))

    async def agent(self, agent: str, method: str, *args: object) -> Any:
        """Call a method of an agent; a stream is read to its end."""
        return await self.do("agent", agent=agent, method=method, args=list(args))

    async def bus(self, bus: str, method: str, *args: object) -> Any:
        """Call a method of an open bus."""
        return await self.do("bus-call", bus=bus, method=method, args=list(args))

    async def kill(self) -> None:
        """End it at once, as a crash would."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def aclose(self) -> None:
        """Let it close its connections and end; kill it if it doesn't."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(5):
                await self._process.wait()
        except TimeoutError:
            await self.kill()
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading
        self._process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 – asyncio has no public way

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            message = json.loads(line)
            waiting = self._waiting.pop(message["id"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("The Node process has ended."))


@asynccontextmanager
async def node_peer(
    place: NodePlace, *, program: Path = _PROGRAM, **environment: str
) -> AsyncIterator[NodePeer]:
    """
    Start a Node process; it is gone afterwards. Its time zone is UTC.

    Args:
        place: Where Node and the packages are.
        program: What it runs, if not the peer of the suite; obeys lines of the same form.
        environment: Further variables.
    """
    process = await asyncio.create_subprocess_exec(
        str(place.node),
        str(program),
        stdin=PIPE,
        stdout=PIPE,
        env={
            "PATH": os.environ.get("PATH", ""),
            "TZ": "UTC",
            "MASTRA_NODE_PACKAGES": str(place.folder),
            "MASTRA_TELEMETRY_DISABLED": "1",
            **environment,
        },
        limit=_LINE_LIMIT,
    )
    peer = NodePeer(process)
    try:
        yield peer
    finally:
        await peer.aclose()


def _to_node(value: Any) -> Any:
    match value:
        case datetime():
            return {"$date": to_iso_ms(value)}
        case Mapping():
            return {key: _to_node(part) for key, part in value.items()}
        case list() | tuple():
            return [_to_node(part) for part in value]
        case _:
            return value


def _from_node(value: Any) -> Any:
    match value:
        case {"$date": str(text), **others} if not others:
            return parse_iso(text)
        case dict():
            return {key: _from_node(part) for key, part in value.items()}
        case list():
            return [_from_node(part) for part in value]
        case _:
            return value
