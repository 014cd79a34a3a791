"""Events as documents of the log, and back (pubsub_and_lease.md 2, 8.4)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mastra_core.base.jsonjs import decode, encode_bytes, is_plain
from mastra_core.bus import Entry, Position
from mastra_core.errors import WireDecodeError
from mastra_core.inmemory.payload import copy_payload
from mastra_core.wire.events import Event, event_from_wire, event_to_wire

__all__ = (
    "CHUNK_BYTES",
    "Payload",
    "Row",
    "encode_event",
    "event_document",
    "event_from_text",
    "row_from",
)

logger = logging.getLogger(__name__)

CHUNK_BYTES: Final = 12 * 1024 * 1024
"""A longer text is stored in pieces: documents, and the events of change streams, are limited."""


@dataclass(slots=True)
class Payload:
    """An event as text, on its way into the log."""

    text: str
    type: str
    run_id: str


@dataclass(slots=True)
class Row:
    """One place in the log; it may hold an event, or nothing any more."""

    position: Position
    entry: Entry | None
    size: int = 0
    #: Nothing follows in this epoch; the log goes on in that one.
    next_epoch: int | None = None


def encode_event(event: Event) -> tuple[Payload, int]:
    """
    The envelope as JSON text, and the bytes of its data alone.

    Raises:
        WireEncodeError: Something in it has no form outside this process.
    """
    data = _json(event.data)
    rest = event_to_wire(event)
    del rest["data"], rest["deliveryAttempt"]
    rest.pop("index", None)
    text = f'{{"data":{data.decode()},{_json(rest)[1:].decode()}'
    return Payload(text, _text(event.type), _text(event.run_id)), len(data)


def _json(value: Any) -> bytes:
    if not is_plain(value):
        value, _ = copy_payload(value, None)
    return encode_bytes(value, lenient=True)


def _text(value: str) -> str:
    """A text that BSON holds; only for looking, the envelope has the right one."""
    return value.encode("utf-8", "replace").decode()


def event_document(payload: Payload, event: Event, dedupe_id: str | None) -> dict[str, Any]:
    """The members of a log document that don't depend on its place."""
    document = {
        "eventId": _text(event.id),
        "type": payload.type,
        "runId": payload.run_id,
        "p": payload.text,
        "createdAt": event.created_at,
    }
    if dedupe_id is not None:
        document["dedupeId"] = _text(dedupe_id)
    return document


def row_from(document: Mapping[str, Any], topic: str, text: str | None = None) -> Row:
    """
    A document of the log.

    Args:
        document: As it was read, or as it came with a change stream.
        topic: Its topic, as subscribers know it.
        text: Its payload, if that was stored in pieces.
    """
    epoch, seq = int(document["e"]), int(document["s"])
    position = (epoch, seq)
    if "next" in document:
        return Row(position, None, 0, int(document["next"]))
    payload = text if text is not None else document.get("p")
    if payload is None:
        return Row(position, None)
    try:
        event = event_from_text(payload, topic)
    except WireDecodeError:
        logger.warning("unreadable event left out", extra={"topic": topic, "seq": seq})
        return Row(position, None)
    event.index = seq - 1
    event.cursor = f"{epoch}:{seq}"
    return Row(position, Entry(position, event), len(payload))


def event_from_text(text: str, topic: str) -> Event:
    """
    The event of an envelope.

    Raises:
        WireDecodeError: It isn't one; the reader passes over it (P18).
    """
    return event_from_wire(decode(text), topic=topic)
