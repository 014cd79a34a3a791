"""The envelope of every event on the bus (pubsub_and_lease.md 2.1)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

__all__ = ("Event",)


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
