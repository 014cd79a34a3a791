"""Events as the TypeScript system writes them into streams (pubsub_and_lease.md 2.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from mastra_core.base import jsonjs
from mastra_core.base.isotime import from_epoch_ms
from mastra_core.base.unset import UNDEFINED
from mastra_core.bus import Entry, Position
from mastra_core.errors import WireDecodeError
from mastra_core.inmemory.payload import copy_payload
from mastra_core.wire.events import Event, event_from_wire, event_to_wire

__all__ = ("FIELD", "encode_event", "entry_of", "event_of", "id_of", "position_of")

FIELD: Final = b"event"
"""The one field of an entry that counts."""


def encode_event(event: Event) -> tuple[bytes, int]:
    """
    The event as JSON text, and the bytes of its data.

    Raises:
        WireEncodeError: Something in it has no form outside this process.
    """
    rest = event_to_wire(event)
    head = {"type": rest.pop("type"), "runId": rest.pop("runId")}
    data = rest.pop("data")
    if not jsonjs.is_plain(rest):
        rest = _with_buffers(copy_payload(rest, None)[0])
    body = _encode(data)
    text = (
        jsonjs.encode_bytes(head)[:-1]
        + (b"" if body is None else b',"data":' + body)
        + b","
        + jsonjs.encode_bytes(rest, lenient=True)[1:]
    )
    size = len(body or b"")
    if event.extra:
        size += len(jsonjs.encode_bytes(_with_buffers(copy_payload(event.extra, None)[0])))
    return text, size


def _encode(data: Any) -> bytes | None:
    if data is UNDEFINED:
        return None
    if jsonjs.is_plain(data):
        return jsonjs.encode_bytes(data, path_prefix="$.data")
    return jsonjs.encode_bytes(
        _with_buffers(copy_payload(data, None)[0]), lenient=True, path_prefix="$.data"
    )


def _with_buffers(value: Any) -> Any:
    """Bytes as Node writes a Buffer."""
    if isinstance(value, bytes):
        return {"type": "Buffer", "data": list(value)}
    if isinstance(value, Mapping):
        return {name: _with_buffers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_with_buffers(item) for item in value]
    return value


def event_of(fields: Sequence[bytes], *, topic: str, entry_id: bytes) -> Event:
    """
    The event of an entry.

    Raises:
        WireDecodeError: The entry has no event, or none that can be read (P18).
    """
    for name, value in zip(fields[::2], fields[1::2], strict=True):
        if name == FIELD:
            return event_from_wire(
                jsonjs.decode(value), topic=topic, cursor=entry_id.decode(), now=_time(entry_id)
            )
    raise WireDecodeError("An entry of a stream has no event.")


def entry_of(raw_entry: Sequence[Any], *, topic: str) -> Entry | None:
    """An entry as the engine takes it; None if it is malformed and to be skipped."""
    entry_id, fields = raw_entry
    try:
        event = event_of(fields, topic=topic, entry_id=entry_id)
    except WireDecodeError:
        return None
    return Entry(position_of(entry_id), event)


def position_of(entry_id: bytes | str) -> Position:
    """The two parts of an entry's id."""
    text = entry_id.decode() if isinstance(entry_id, bytes) else entry_id
    ms, _, number = text.partition("-")
    return int(ms), int(number or 0)


def id_of(position: Position) -> str:
    """The id of a position; those of events that were queued again are negative."""
    return f"{abs(position[0])}-{position[1]}"


def _time(entry_id: bytes) -> datetime:
    return from_epoch_ms(position_of(entry_id)[0])
