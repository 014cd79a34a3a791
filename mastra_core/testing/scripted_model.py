"""A model that says what it was told to say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from mastra_core.contracts.model import ModelPart, ModelRequest
from mastra_core.errors import ModelError

__all__ = ("Gates", "Script", "ScriptedModel", "text", "tool_call")

#: One call: a list of script parts, or a function of the request that returns one.
Script = Sequence[Mapping[str, Any]] | Callable[[ModelRequest], Sequence[Mapping[str, Any]]]


def text(words: str) -> dict[str, Any]:
    """A script part: this text, one delta per word."""
    return {"type": "text", "text": words}


def tool_call(name: str, arguments: Mapping[str, Any], *, id: str = "call_1") -> dict[str, Any]:
    """A script part: one complete tool call."""
    return {"type": "tool", "id": id, "name": name, "input": dict(arguments)}


class Gates:
    """Named places where a script or a tool waits until a test opens them."""

    def __init__(self) -> None:
        self._reached: dict[str, asyncio.Event] = {}
        self._opened: dict[str, asyncio.Event] = {}

    def _event(self, events: dict[str, asyncio.Event], name: str) -> asyncio.Event:
        return events.setdefault(name, asyncio.Event())

    async def wait(self, name: str) -> None:
        """Stand at the gate until it is open."""
        self._event(self._reached, name).set()
        await self._event(self._opened, name).wait()

    async def reached(self, name: str) -> None:
        """Wait until somebody stands there."""
        await self._event(self._reached, name).wait()

    def open(self, name: str) -> None:
        """Let everybody through, now and later."""
        self._event(self._opened, name).set()


class ScriptedModel:
    """
    Answers call after call from a script and keeps the requests.

    A call is a list of parts: ``{"type": "text", "text"}`` (``open``: without an end,
    ``cont``: goes on under the id of the open one), ``reasoning``, ``tool``,
    ``tool-streamed`` (arguments in two deltas), ``gate`` and ``gate-before``, ``error``,
    ``throw``, ``finish`` (sets the reason), ``cut`` (no finish part); anything else is passed
    as it is. A call beyond the script answers the text ``extra``. Each call uses 10 tokens in
    and 5 out.
    """

    specification = "v2"

    def __init__(
        self,
        calls: Sequence[Script] = (),
        *,
        gates: Gates | None = None,
        provider: str = "mock",
        model_id: str = "mock-1",
    ) -> None:
        self.provider = provider
        self.model_id = model_id
        self.requests: list[ModelRequest] = []
        self.gates = gates or Gates()
        self._calls = list(calls)

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """The next call of the script."""
        number = len(self.requests)
        self.requests.append(request)
        if number >= len(self._calls):
            return self._play([text("extra")], number)
        call = self._calls[number]
        return self._play(call(request) if callable(call) else call, number)

    async def _play(
        self, parts: Sequence[Mapping[str, Any]], number: int
    ) -> AsyncIterator[ModelPart]:
        for part in parts:
            if part["type"] == "gate-before":
                await self.gates.wait(part["name"])
            if part["type"] == "throw":
                raise _failure(part)
        yield {"type": "stream-start", "warnings": []}
        yield {
            "type": "response-metadata",
            "id": f"response-{number}",
            "timestamp": "1970-01-01T00:00:00.000Z",
            "modelId": self.model_id,
        }
        reason: str | None = None
        is_cut = False
        has_calls = False
        block = 0
        for position, part in enumerate(parts, 1):
            kind = part["type"]
            if kind in ("text", "reasoning"):
                if not part.get("cont"):
                    block = position
                for made in _block(kind, part, f"{kind}-{number}-{block}"):
                    yield made
            elif kind in ("tool", "tool-streamed"):
                has_calls = True
                for made in _tool(part):
                    yield made
            elif kind == "gate":
                await self.gates.wait(part["name"])
            elif kind == "error":
                yield {"type": "error", "error": _failure(part)}
            elif kind == "finish":
                reason = part.get("reason", part.get("finishReason"))
            elif kind == "cut":
                is_cut = True
            elif kind != "gate-before":
                yield dict(part)
        if not is_cut:
            yield {
                "type": "finish",
                "finishReason": reason or ("tool-calls" if has_calls else "stop"),
                "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15},
            }


def _failure(part: Mapping[str, Any]) -> ModelError:
    props = part.get("props") or {}
    return ModelError(str(part.get("message", "failed")), id=props.get("code"))


def _block(kind: str, part: Mapping[str, Any], block: str) -> list[ModelPart]:
    made: list[ModelPart] = []
    if not part.get("cont"):
        made.append({"type": f"{kind}-start", "id": block})
    made.extend(
        {"type": f"{kind}-delta", "id": block, "delta": word} for word in _words(part["text"])
    )
    if not part.get("open"):
        made.append({"type": f"{kind}-end", "id": block})
    return made


def _words(words: str) -> list[str]:
    """Words with the blank after them; a leading blank stays with its word."""
    found: list[str] = []
    for piece in words.split(" "):
        if found:
            found[-1] += " "
        found.append(piece)
    if len(found) > 1 and found[0] == " ":
        found[1] = " " + found[1]
        del found[0]
    return [word for word in found if word]


def _tool(part: Mapping[str, Any]) -> list[ModelPart]:
    arguments = json.dumps(part.get("input", {}), separators=(",", ":"), ensure_ascii=False)
    call: ModelPart = {
        "type": "tool-call",
        "toolCallId": part["id"],
        "toolName": part["name"],
        "input": arguments,
    }
    if part["type"] == "tool":
        return [call]
    half = arguments.find(":") if ":" in arguments else len(arguments) // 2
    return [
        {"type": "tool-input-start", "id": part["id"], "toolName": part["name"]},
        {"type": "tool-input-delta", "id": part["id"], "delta": arguments[:half]},
        {"type": "tool-input-delta", "id": part["id"], "delta": arguments[half:]},
        {"type": "tool-input-end", "id": part["id"]},
        call,
    ]
