"""The chunks of a run as a web page's chat reads them (streaming.md 12.1).

:func:`ui_stream` turns ``full_stream`` into the chunks of the AI SDK's UI message stream,
:func:`ui_frames` writes them as server-sent events. How stored messages become UI messages is
another room, see ``messages.ui``.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args

from mastra_core.base.jsonjs import encode
from mastra_core.errors import RunArgumentError, WireEncodeError, shown
from mastra_core.messages.ui import (
    UiVersion,
    approval_id,
    check_version,
    denial_text,
    file_url,
    mapping_of,
)
from mastra_core.streaming.ui_nested import NestedRuns

__all__ = (
    "UI_STREAM_HEADERS",
    "UiChunk",
    "UiConverter",
    "UiSource",
    "ui_frames",
    "ui_stream",
)

logger = logging.getLogger(__name__)

UiChunk: TypeAlias = dict[str, Any]
#: Whose chunks are converted.
UiSource = Literal["agent", "workflow", "network"]

#: Headers of an HTTP response that carries :func:`ui_frames`.
UI_STREAM_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "connection": "keep-alive",
        "x-vercel-ai-ui-message-stream": "v1",
        "x-accel-buffering": "no",
    }
)
#: The last frame.
_DONE: Final = "data: [DONE]\n\n"
#: Reasons that the readers of a version know; they refuse any other.
_REASONS: Final = frozenset({"stop", "length", "content-filter", "tool-calls", "error", "other"})
_REASONS_V5: Final = _REASONS | {"unknown"}


async def ui_stream(
    chunks: AsyncIterable[Mapping[str, Any]],
    *,
    version: UiVersion = "v5",
    source: UiSource = "agent",
    send_reasoning: bool = False,
    send_sources: bool = False,
    send_start: bool = True,
    send_finish: bool = True,
    last_message_id: str | None = None,
    message_metadata: Callable[[Mapping[str, Any]], Any] | None = None,
    on_error: Callable[[Any], str] | None = None,
) -> AsyncGenerator[UiChunk, None]:
    """
    The chunks of an AI SDK UI message stream.

    A reader that stops detaches itself; the run goes on (``output.abort()`` ends it).

    Args:
        chunks: ``output.full_stream``, or the chunks of a workflow or network.
        version: What the page runs: AI SDK ``v5``, ``v6`` or ``v7``.
        source: Whose chunks these are.
        send_reasoning: Show the model's reasoning.
        send_sources: Show citations.
        send_start: Begin the message; off if something before it has.
        send_finish: End the message; off if something follows.
        last_message_id: Id of the message on the page that these chunks go on with.
        message_metadata: Called with the ``start`` and ``finish`` chunks; what it returns is
            shown as the message's metadata.
        on_error: The text to show for an error; by default its message.

    Raises:
        RunArgumentError: There is no such version or source.
        WireEncodeError: A ``data-*`` chunk has no data.
    """
    converter = UiConverter(
        version=version,
        source=source,
        send_reasoning=send_reasoning,
        send_sources=send_sources,
        send_start=send_start,
        send_finish=send_finish,
        last_message_id=last_message_id,
        message_metadata=message_metadata,
        on_error=on_error,
    )
    for shown_chunk in converter.begin():
        yield shown_chunk
    async for chunk in chunks:
        for shown_chunk in converter.convert(chunk):
            yield shown_chunk
    for shown_chunk in converter.end():
        yield shown_chunk


async def ui_frames(
    chunks: AsyncIterable[Mapping[str, Any]], **options: Any
) -> AsyncGenerator[str, None]:
    """
    The same as server-sent events, to be sent with :data:`UI_STREAM_HEADERS`.

    The response has begun, so nothing is raised: what goes wrong is the last chunk, an
    ``error``, and the stream ends as it should.

    Args:
        chunks: See :func:`ui_stream`.
        options: See :func:`ui_stream`.
    """
    try:
        async for chunk in ui_stream(chunks, **options):
            yield _frame(chunk)
    except Exception as exc:
        logger.exception("UI stream broke off")
        text = (options.get("on_error") or _error_text)(exc)
        yield _frame({"type": "error", "errorText": text})
    yield _DONE


def _frame(chunk: UiChunk) -> str:
    return f"data: {encode(chunk, lenient=True)}\n\n"


class UiConverter:
    """
    Converts chunk by chunk, without waiting; for streams that aren't asynchronous iterables.

    See :func:`ui_stream` for the options.
    """

    def __init__(
        self,
        *,
        version: UiVersion = "v5",
        source: UiSource = "agent",
        send_reasoning: bool = False,
        send_sources: bool = False,
        send_start: bool = True,
        send_finish: bool = True,
        last_message_id: str | None = None,
        message_metadata: Callable[[Mapping[str, Any]], Any] | None = None,
        on_error: Callable[[Any], str] | None = None,
    ) -> None:
        check_version(version)
        if source not in get_args(UiSource):
            raise RunArgumentError(
                f"A UI stream is made of the chunks of an agent, a workflow or a network, "
                f"not of {shown(source)}.",
                details={"argument": "source"},
            )
        self._is_v5 = version == "v5"
        self._source = source
        self._sends_reasoning = send_reasoning
        self._sends_sources = send_sources
        self._sends_start = send_start
        self._sends_finish = send_finish
        self._last_message_id = last_message_id
        self._metadata_of = message_metadata
        self._say = on_error or _error_text
        self._has_started = False
        self._has_finished = False
        self._tripped = False
        self._nested = NestedRuns()

    # -- the stream -----------------------------------------------------------------------

    def begin(self) -> list[UiChunk]:
        """What stands before the first chunk."""
        if self._source == "agent" or not self._sends_start:
            return []
        self._has_started = True
        return [{"type": "start"}]

    def end(self) -> list[UiChunk]:
        """What stands behind the last chunk."""
        if not self._sends_finish:
            return []
        if self._source != "agent":
            return [{"type": "finish"}]
        if self._tripped and not self._has_finished:
            return [{"type": "finish", "finishReason": "other"}]
        return []

    def convert(self, chunk: Mapping[str, Any]) -> list[UiChunk]:
        """
        What the page is shown of a chunk; mostly one, for some nothing.

        Raises:
            WireEncodeError: A ``data-*`` chunk has no data.
        """
        kind = str(chunk.get("type"))
        if kind.startswith("data-"):
            return [_data(chunk)]
        if self._source == "workflow":
            return _part_of(self._nested.workflow(chunk, nested=False))
        if self._source == "network":
            return self._of_network(chunk)
        return self._of_agent(kind, chunk, mapping_of(chunk.get("payload")))

    def _of_agent(
        self, kind: str, chunk: Mapping[str, Any], payload: Mapping[str, Any]
    ) -> list[UiChunk]:
        match kind:
            case "text-delta" | "text-start" | "text-end":
                return [_text(chunk, payload)]
            case "reasoning-delta" | "reasoning-start" | "reasoning-end":
                return [_text(chunk, payload)] if self._sends_reasoning else []
            case "tool-call-delta":
                return [_input_delta(payload)]
            case "tool-call-input-streaming-start":
                names = ("toolCallId", "toolName", "dynamic", "providerExecuted")
                return [{"type": "tool-input-start", **_members(payload, *names)}]
            case "tool-call":
                return [_call(payload)]
            case "tool-result":
                return [_result(payload)]
            case "tool-error":
                return [self._tool_error(payload)]
            case "tool-output-denied":
                return [self._denied(payload)]
            case "tool-call-approval":
                return self._approval(chunk, payload)
            case "tool-call-suspended":
                return [_parked(chunk, payload, "suspendPayload", "resumeSchema")]
            case "tool-output":
                return self._output(payload)
            case "source":
                return [_source(payload)] if self._sends_sources else []
            case "file":
                return [_file(payload)]
            case "object-result":
                return [{"type": "data-structured-output", "data": {"object": chunk.get("object")}}]
            case "start":
                return self._start(chunk, payload)
            case "step-start":
                return [{"type": "start-step"}]
            case "step-finish":
                return [{"type": "finish-step"}]
            case "finish":
                return self._finish(chunk, payload)
            case "abort":
                return [{"type": "abort"}]
            case "error":
                return [{"type": "error", "errorText": self._say(payload.get("error"))}]
            case "tripwire":
                self._tripped = True
                data = _members(payload, "reason", "retry", "metadata", "processorId")
                return [{"type": "data-tripwire", "data": data}]
            case _:
                # Facts for programs, and whatever a newer peer says.
                return []

    def _of_network(self, chunk: Mapping[str, Any]) -> list[UiChunk]:
        inner = chunk.get("payload")
        if isinstance(inner, Mapping) and str(inner.get("type")).startswith("data-"):
            return [_data(inner)]
        return _part_of(self._nested.network(chunk, nested=False))

    # -- the message and its steps --------------------------------------------------------

    def _start(self, chunk: Mapping[str, Any], payload: Mapping[str, Any]) -> list[UiChunk]:
        # A further turn (until idle) goes on in the same message: a second start would give
        # it another id, and the page a second copy of it.
        if self._has_started or not self._sends_start:
            return []
        self._has_started = True
        started: UiChunk = {"type": "start"}
        message_id = self._last_message_id or payload.get("messageId")
        if message_id is not None:
            started["messageId"] = message_id
        return [started | self._metadata(chunk)]

    def _finish(self, chunk: Mapping[str, Any], payload: Mapping[str, Any]) -> list[UiChunk]:
        self._has_finished = True
        if not self._sends_finish:
            return []
        finished: UiChunk = {"type": "finish", **self._metadata(chunk)}
        reason = mapping_of(payload.get("stepResult")).get("reason")
        if reason is not None:
            known = _REASONS_V5 if self._is_v5 else _REASONS
            finished["finishReason"] = reason if str(reason) in known else "other"
        return [finished]

    def _metadata(self, chunk: Mapping[str, Any]) -> UiChunk:
        value = None if self._metadata_of is None else self._metadata_of(chunk)
        return {} if value is None else {"messageMetadata": value}

    # -- tools ----------------------------------------------------------------------------

    def _tool_error(self, payload: Mapping[str, Any]) -> UiChunk:
        return {
            "type": "tool-output-error",
            "toolCallId": payload.get("toolCallId"),
            "errorText": self._say(payload.get("error")),
            **_members(payload, "providerExecuted", "dynamic"),
        }

    def _denied(self, payload: Mapping[str, Any]) -> UiChunk:
        call_id = payload.get("toolCallId")
        if not self._is_v5:
            return {"type": "tool-output-denied", "toolCallId": call_id}
        text = denial_text(payload.get("approval"))
        return {"type": "tool-output-available", "toolCallId": call_id, "output": text}

    def _approval(self, chunk: Mapping[str, Any], payload: Mapping[str, Any]) -> list[UiChunk]:
        asked = [_parked(chunk, payload, "args", "resumeSchema")]
        if not self._is_v5:
            call_id = payload.get("toolCallId")
            asked.append(
                {
                    "type": "tool-approval-request",
                    "approvalId": approval_id(chunk.get("runId"), call_id),
                    "toolCallId": call_id,
                }
            )
        return asked

    def _output(self, payload: Mapping[str, Any]) -> list[UiChunk]:
        inner = payload.get("output")
        if not isinstance(inner, Mapping):
            return []
        if str(inner.get("type")).startswith("data-"):
            return [_data(inner)]
        if inner.get("type") == "tool-output":
            # A tool of the inner run has written something itself.
            return self._output(mapping_of(inner.get("payload")))
        return _part_of(self._nested.take(inner))


def _part_of(part: UiChunk | None) -> list[UiChunk]:
    return [] if part is None else [part]


def _text(chunk: Mapping[str, Any], payload: Mapping[str, Any]) -> UiChunk:
    said: UiChunk = {"type": chunk["type"], "id": payload.get("id")}
    if "text" in payload:
        said["delta"] = payload["text"]
    return said | _members(payload, "providerMetadata")


def _source(payload: Mapping[str, Any]) -> UiChunk:
    metadata = _members(payload, "providerMetadata")
    if payload.get("sourceType") != "document":
        part = {"type": "source-url", "sourceId": payload.get("id")}
        return part | _members(payload, "url", "title") | metadata
    return {
        "type": "source-document",
        "sourceId": payload.get("id"),
        "mediaType": payload.get("mimeType", payload.get("mediaType", "")),
        "title": payload.get("title", ""),
        **_members(payload, "filename"),
        **metadata,
    }


def _file(payload: Mapping[str, Any]) -> UiChunk:
    media_type = payload.get("mimeType", payload.get("mediaType", ""))
    url = file_url(payload.get("base64") or payload.get("data", ""), media_type)
    part = {"type": "file", "mediaType": media_type, "url": url}
    return part | _members(payload, "providerMetadata")


def _input_delta(payload: Mapping[str, Any]) -> UiChunk:
    return {
        "type": "tool-input-delta",
        "toolCallId": payload.get("toolCallId"),
        "inputTextDelta": payload.get("argsTextDelta", ""),
    }


def _call(payload: Mapping[str, Any]) -> UiChunk:
    return {
        "type": "tool-input-available",
        **_members(payload, "toolCallId", "toolName"),
        "input": payload.get("args"),
        **_members(payload, "providerExecuted", "providerMetadata", "dynamic"),
    }


def _result(payload: Mapping[str, Any]) -> UiChunk:
    return {
        "type": "tool-output-available",
        "toolCallId": payload.get("toolCallId"),
        "output": payload.get("result"),
        **_members(payload, "providerExecuted", "dynamic"),
    }


def _parked(chunk: Mapping[str, Any], payload: Mapping[str, Any], *names: str) -> UiChunk:
    """A call that waits for somebody, with what an answer to it needs."""
    kind = f"data-{chunk['type']}"
    data = {"state": kind, "runId": chunk.get("runId")}
    data |= _members(payload, "toolCallId", "toolName", *names)
    return {"type": kind, "id": payload.get("toolCallId"), "data": data}


def _error_text(error: object) -> str:
    """What a page may show of an error: its message, never more."""
    if isinstance(error, Mapping):
        return str(error.get("message") or error.get("name") or "An error occurred.")
    return str(error or "An error occurred.")


def _data(chunk: Mapping[str, Any]) -> UiChunk:
    if "data" not in chunk:
        raise WireEncodeError(
            f"A {chunk['type']!r} chunk needs data to be shown.", details={"type": chunk["type"]}
        )
    return {"type": chunk["type"], "data": chunk["data"]} | _members(chunk, "id", "transient")


def _members(payload: Mapping[str, Any], *names: str) -> UiChunk:
    """Those members that there are."""
    return {name: payload[name] for name in names if payload.get(name) is not None}
