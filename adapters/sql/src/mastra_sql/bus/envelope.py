"""An event as text, and back; the text is all that is kept of it (pubsub_and_lease.md 2)."""

from __future__ import annotations

from typing import Any

from mastra_core.base.jsonjs import decode, encode_bytes, is_plain
from mastra_core.bus import Entry
from mastra_core.errors import WireDecodeError
from mastra_core.inmemory.payload import copy_payload
from mastra_core.wire.events import Event, event_from_wire, event_to_wire

__all__ = ("encode_envelope", "read_entry", "read_envelope")


def encode_envelope(event: Event) -> tuple[str, int]:
    """
    The envelope as JSON text, and the bytes of its data alone.

    Raises:
        WireEncodeError: Something in it has no form outside this process.
    """
    data = _json(event.data)
    rest = event_to_wire(event)
    del rest["data"], rest["deliveryAttempt"]
    rest.pop("index", None)
    members = _json(rest)
    return f'{{"data":{data.decode()},{members[1:].decode()}', len(data)


def read_envelope(text: str, *, topic: str) -> Event:
    """
    The event of a text.

    Raises:
        WireDecodeError: It isn't an event; the reader passes over it (P18).
    """
    return event_from_wire(decode(text), topic=topic)


def read_entry(text: str, *, topic: str, epoch: int, seq: int) -> Entry | None:
    """One event of the log with its place in it; None for what can't be read."""
    try:
        event = read_envelope(text, topic=topic)
    except WireDecodeError:
        return None
    event.index = seq - 1 if seq > 0 else None
    event.cursor = f"{epoch}:{seq}"
    return Entry((epoch, seq), event)


def _json(value: Any) -> bytes:
    if not is_plain(value):
        value, _ = copy_payload(value, None)
    return encode_bytes(value, lenient=True)
