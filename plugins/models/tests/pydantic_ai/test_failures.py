"""Failures of a provider are errors of ours; a real socket answers badly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from mastra_core.errors import ModelError, ModelHTTPError, ModelNotFoundError, ModelTimeoutError
from mastra_models import PydanticAIModel

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def provider_that_answers(
    status: int, body: Any, headers: str = "", *, hangs: bool = False
) -> AsyncIterator[PydanticAIModel]:
    """An HTTP server that gives every request the same answer, and a model that asks it."""
    text = json.dumps(body).encode()
    connections: list[asyncio.Task[Any] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(asyncio.current_task())
        try:
            await reader.readuntil(b"\r\n\r\n")
            if hangs:
                await reader.read()
            head = (
                f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n"
                f"{headers}Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode() + text)
            await writer.drain()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, model_at(server.sockets[0].getsockname()[1]) as model:
        yield model
    await asyncio.gather(*filter(None, connections), return_exceptions=True)


@asynccontextmanager
async def model_at(port: int) -> AsyncIterator[PydanticAIModel]:
    """A model that asks at a port; its client is closed at the end."""
    provider = OpenAIProvider(base_url=f"http://127.0.0.1:{port}/v1", api_key="k")
    model = OpenAIChatModel("m1", provider=provider)
    try:
        yield PydanticAIModel(model, provider="acme", max_retries=0)
    finally:
        await provider.client.close()


@pytest.mark.parametrize(
    ("status", "is_retryable"), [(400, False), (401, False), (429, True), (503, True)]
)
async def test_a_status_is_kept(ask: Callable[..., Any], status: int, is_retryable: bool) -> None:
    body = {"error": {"message": "because of the weather"}}

    async with provider_that_answers(status, body, "Retry-After: 7\r\n") as model:
        with pytest.raises(ModelHTTPError, match="because of the weather") as caught:
            await ask(model)

    assert (status, 7.0) == (caught.value.status, caught.value.retry_after)
    assert is_retryable is caught.value.retryable
    assert caught.value.__cause__ is not None


async def test_an_unknown_model_is_not_found(ask: Callable[..., Any]) -> None:
    async with provider_that_answers(404, {"error": {"message": "no"}}) as model:
        with pytest.raises(ModelNotFoundError, match="acme/m1"):
            await ask(model)


async def test_a_provider_that_cannot_be_reached_may_be_asked_again(
    ask: Callable[..., Any], unused_tcp_port: int
) -> None:
    async with model_at(unused_tcp_port) as model:
        with pytest.raises(ModelError, match="can't be reached") as caught:
            await ask(model)

    assert caught.value.retryable


async def test_a_provider_that_is_silent_is_given_up(ask: Callable[..., Any]) -> None:
    async with provider_that_answers(200, {}, hangs=True) as model:
        with pytest.raises(ModelTimeoutError):
            await ask(model, settings={"timeoutMs": 100})


async def test_nonsense_is_a_model_error(ask: Callable[..., Any]) -> None:
    async with provider_that_answers(200, {"what": "is this"}) as model:
        with pytest.raises(ModelError):
            await ask(model)
