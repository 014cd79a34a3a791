"""The envelope of every event on the bus (pubsub_and_lease.md 2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from mastra_core.base.isotime import parse_iso, to_iso_ms
from mastra_core.errors import WireDecodeError

__all__ = ("Event", "event_from_wire", "event_to_wire")


@dataclass(slots=True, kw_only=True)
class Event:
    """One event. Every subscriber gets an envelope of its own; ``data`` may be shared.

    ``id`` and ``created_at`` are set by the transport when the event is published;
    ``cursor`` and ``topic`` when it is delivered, and neither is ever serialised.
    """

    type: str
    run_id: str
    data: Any
    id: str = ""
    created_at: datetime | None = None
    #: Dense position in its topic, where the transport counts.
    index: int | None = None
    delivery_attempt: int = 1
    cursor: str | None = None
    topic: str = ""
    #: Members that we don't know, kept and written again on republish.
    extra: dict[str, Any] = field(default_factory=dict)

    def copy(self, **changes: Any) -> Event:
        """A fresh envelope with the given members changed."""
        changes.setdefault("extra", dict(self.extra))
        return replace(self, **changes)


_KNOWN = frozenset({"type", "runId", "data", "id", "createdAt", "index", "deliveryAttempt"})


def event_to_wire(event: Event) -> dict[str, Any]:
    """
    The envelope under its wire names, ``data`` by reference.

    The caller's members come first, then those of the transport, as Node writes them.
    """
    wire: dict[str, Any] = {
        "type": event.type,
        "runId": event.run_id,
        "data": event.data,
        **{name: value for name, value in event.extra.items() if name not in _KNOWN},
    }
    if event.index is not None:
        wire["index"] = event.index
    wire["id"] = event.id
    if event.created_at is not None:
        wire["createdAt"] = to_iso_ms(event.created_at)
    wire["deliveryAttempt"] = event.delivery_attempt
    return wire


def event_from_wire(
    value: Any, *, topic: str = "", cursor: str | None = None, now: datetime | None = None
) -> Event:
    """
    Read an envelope; unknown members are kept in ``extra``.

    Args:
        value: What the transport carried, parsed.
        topic: Where it was found.
        cursor: Its position there.
        now: The transport's own time of the event, for one whose ``createdAt`` can't be read.

    Raises:
        WireDecodeError: It isn't an event; the reader settles and skips it (P18).
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise WireDecodeError("An event is an object with a type.")
    index, attempt = value.get("index"), value.get("deliveryAttempt")
    return Event(
        type=value["type"],
        run_id=str(value.get("runId") or ""),
        data=value.get("data"),
        id=str(value.get("id") or ""),
        created_at=_time_from_wire(value.get("createdAt"), now),
        index=index if type(index) is int and index >= 0 else None,
        delivery_attempt=attempt if type(attempt) is int and attempt >= 1 else 1,
        cursor=cursor,
        topic=topic,
        extra={name: member for name, member in value.items() if name not in _KNOWN},
    )


def _time_from_wire(value: Any, default: datetime | None) -> datetime | None:
    if isinstance(value, datetime):
        return value
    try:
        return parse_iso(value) if isinstance(value, str) else default
    except WireDecodeError:
        return default
