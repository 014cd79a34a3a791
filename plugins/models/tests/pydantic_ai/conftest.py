"""A provider on a real socket: it answers with the streams that lie beside the tests."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from mastra_core.base.clock import SystemClock
from mastra_core.plugins import AdapterContext
from mastra_models import PydanticAIModel, model_from_name

STREAMS = Path(__file__).parent / "streams"
#: Names of models by the protocol that their provider speaks.
NAMES = {
    "openai-chat": "openai-chat/gpt-5-mini",
    "openai-responses": "openai/gpt-5-mini",
    "anthropic": "anthropic/claude-haiku-5-5",
    "google": "google/gemini-2.5-flash",
}
#: Bytes of one piece on the wire; events are cut anywhere, also within a letter.
PIECE = 61


class SkippingClock(SystemClock):
    """Waits no time, and remembers for how long it should have."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    # SystemClock has no attributes of its own.
    __slots__ = ("pauses",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the provider does with one request."""

    status: int = 200
    headers: tuple[str, ...] = ()
    body: bytes = b""
    #: ``cut``: the connection breaks before the body's end; ``wait``: nothing more comes.
    ending: Literal["whole", "cut", "wait"] = "whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as the provider saw it."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass(slots=True)
class Provider:
    """A server that gives every request the next of its replies."""

    port: int = 0
    replies: list[Reply] = field(default_factory=list)
    requests: list[Asked] = field(default_factory=list)
    #: Set when a client goes away while it is still being answered.
    left: asyncio.Event = field(default_factory=asyncio.Event)
    clock: SkippingClock = field(default_factory=SkippingClock)
    models: list[PydanticAIModel] = field(default_factory=list)
    connections: set[asyncio.Task[Any]] = field(default_factory=set)

    def streams(self, protocol: str, scene: str, **fields: Any) -> None:
        """The next request is answered with that stream."""
        body = (STREAMS / protocol / f"{scene}.sse").read_bytes()
        headers = ("Content-Type: text/event-stream; charset=utf-8",)
        self.replies.append(Reply(headers=headers, body=body, **fields))

    def refuses(self, status: int, error: Any, *headers: str) -> None:
        """The next request fails."""
        told = ("Content-Type: application/json", *headers)
        self.replies.append(Reply(status=status, headers=told, body=json.dumps(error).encode()))

    def address(self, protocol: str) -> str:
        """Where a client of that protocol looks for it."""
        return f"http://127.0.0.1:{self.port}{'/v1' if protocol.startswith('openai') else ''}"

    def model(self, protocol: str, name: str | None = None, **options: Any) -> PydanticAIModel:
        """A model that asks here instead of its own provider."""
        model = model_from_name(
            name or NAMES[protocol],
            AdapterContext(clock=self.clock),
            base_url=self.address(protocol),
            api_key="k-123",
            **options,
        )
        assert isinstance(model, PydanticAIModel)
        self.models.append(model)
        return model

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        task = asyncio.current_task()
        assert task is not None
        self.connections.add(task)
        try:
            with suppress(ConnectionError):
                self.requests.append(await _read(reader))
                await self._answer(self.replies.pop(0), reader, writer)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def aclose(self) -> None:
        """Hang up on both sides."""
        for model in self.models:
            await model.aclose()
        await asyncio.gather(*self.connections)

    async def _answer(
        self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        head = [
            f"HTTP/1.1 {reply.status} X",
            *reply.headers,
            "Transfer-Encoding: chunked",
            "Connection: close",
        ]
        writer.write("\r\n".join(head).encode() + b"\r\n\r\n")
        for start in range(0, len(reply.body), PIECE):
            piece = reply.body[start : start + PIECE]
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        if reply.ending == "whole":
            writer.write(b"0\r\n\r\n")
        if reply.ending == "wait":
            await reader.read()
            self.left.set()
        await writer.drain()


async def _read(reader: asyncio.StreamReader) -> Asked:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    pairs = (line.partition(": ") for line in lines[1:] if line)
    headers = {name.lower(): value for name, _, value in pairs}
    if headers.get("transfer-encoding") == "chunked":
        raw = b""
        while size := int(await reader.readline(), 16):
            raw += (await reader.readexactly(size + 2))[:-2]
    else:
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(path=lines[0].split(" ")[1], headers=headers, body=json.loads(raw or b"{}"))


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """A provider that runs on this machine for one test."""
    provider = Provider()
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    async with server:
        provider.port = server.sockets[0].getsockname()[1]
        yield provider
        await provider.aclose()


@pytest.fixture
def text_of() -> Callable[[list[dict[str, Any]], str], str]:
    """The pieces of one kind, joined."""

    def join(parts: list[dict[str, Any]], kind: str = "text-delta") -> str:
        return "".join(part["delta"] for part in parts if part["type"] == kind)

    return join


@pytest.fixture
def unused_tcp_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
