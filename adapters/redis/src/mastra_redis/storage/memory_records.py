"""Threads, messages and resources as the TypeScript system writes them; pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mastra_core.base import jsonjs
from mastra_core.base.isotime import epoch_ms, to_iso_ms
from mastra_core.errors import StorageDataError, WireDecodeError
from mastra_core.rules.messages import without_filler
from mastra_core.wire.messages import Message
from mastra_core.wire.threads import Resource, Thread
from mastra_redis.keys import raw
from mastra_redis.link import Argument
from mastra_redis.records import decoded, members, model_of

__all__ = (
    "message_from_text",
    "message_words",
    "resource_from_text",
    "resource_to_text",
    "thread_from_text",
    "thread_words",
)

#: Stands in for the creation time while the rest is encoded; never part of real data.
_HERE = "\u0001mastra:created\u0001"
_HERE_TEXT = jsonjs.encode_bytes(_HERE)[1:-1]
#: What Node shows of a message without content.
_EMPTY_CONTENT: Mapping[str, Any] = {"format": 2, "parts": [{"type": "text", "text": ""}]}


# -- threads -----------------------------------------------------------------------------------


def thread_words(thread: Thread, wanted: str, place: bytes) -> list[Argument]:
    """What ``memory_write`` wants to know of a thread."""
    wire = members(thread)
    created, updated = wire.pop("createdAt"), wire.pop("updatedAt")
    body = jsonjs.encode_bytes(wire)[:-1] + b","
    resource = jsonjs.encode_bytes(thread.resource_id)
    return [raw(thread.id), body, created, updated, resource, wanted, place]


def thread_from_text(text: bytes) -> Thread:
    """A thread, whoever wrote it: metadata may be JSON text."""
    value = decoded(text, what="a thread")
    if isinstance(value, dict):
        if isinstance(value.get("metadata"), str):
            value["metadata"] = _object(value["metadata"])
        if value.get("title") is None:
            value["title"] = ""
    try:
        return Thread.model_validate(value)
    except (ValueError, WireDecodeError) as exc:
        raise StorageDataError("The record of a thread can't be read as one.") from exc


def _object(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return jsonjs.decode(value)
    except WireDecodeError:
        return None


# -- messages ----------------------------------------------------------------------------------


def message_words(message: Message, wanted: str, before: bytes = b"") -> list[Argument]:
    """What ``memory_write`` wants to know of a message; its creation time may be replaced."""
    wire = members(message)
    created = wire["createdAt"]
    wire["createdAt"] = _HERE
    wire["_index"] = 0
    text = jsonjs.encode_bytes(wire)
    head, _, rest = text.partition(_HERE_TEXT)
    return [
        raw(message.thread_id or ""),
        raw(message.id),
        head,
        created,
        rest,
        epoch_ms(message.created_at),
        jsonjs.encode_bytes(message.resource_id or ""),
        wanted,
        before,
    ]


def message_from_text(text: bytes) -> Message:
    """A message, whoever wrote it; the place in its batch isn't part of it."""
    value = decoded(text, what="a message")
    if isinstance(value, dict):
        value.pop("_index", None)
        content = value.get("content")
        value["content"] = _content(content)
    try:
        return without_filler(Message.model_validate(value))
    except (ValueError, WireDecodeError) as exc:
        raise StorageDataError("The record of a message can't be read as one.") from exc


def _content(content: Any) -> Any:
    if isinstance(content, Mapping):
        return content
    if isinstance(content, str) and content:
        parsed = _object(content)
        if isinstance(parsed, dict):
            return parsed
        return {"format": 2, "parts": [{"type": "text", "text": content}]}
    return dict(_EMPTY_CONTENT)


# -- resources ---------------------------------------------------------------------------------


def resource_to_text(resource: Resource) -> bytes:
    """A resource as it is stored: its metadata is JSON text."""
    wire = members(resource)
    if resource.metadata is not None:
        path = "$.metadata"
        wire["metadata"] = jsonjs.encode(resource.metadata, path_prefix=path)
    wire["createdAt"] = to_iso_ms(resource.created_at)
    wire["updatedAt"] = to_iso_ms(resource.updated_at)
    return jsonjs.encode_bytes(wire)


def resource_from_text(text: bytes) -> Resource:
    """A resource, whoever wrote it: working memory may be an object, metadata JSON text."""
    value = decoded(text, what="a resource")
    if isinstance(value, dict):
        if isinstance(value.get("metadata"), str):
            value["metadata"] = _object(value["metadata"])
        memory = value.get("workingMemory")
        if isinstance(memory, dict | list):
            value["workingMemory"] = jsonjs.encode(memory)
        text = jsonjs.encode_bytes(value)
    return model_of(Resource, text, what="a resource")
