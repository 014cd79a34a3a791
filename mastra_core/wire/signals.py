"""A signal: one immutable piece of input for a thread (signals.md 2)."""

from __future__ import annotations

from typing import Any, Literal

from mastra_core.wire.base import IsoTime, WireModel

__all__ = ("Signal", "SignalContents", "SignalType")

SignalType = Literal["user", "state", "reactive", "notification"]
#: Text, or a list of normalised parts (``text`` and ``file``).
SignalContents = str | list[dict[str, Any]]


class Signal(WireModel):
    """One normalised signal, as it travels and as the sender gets it back.

    ``id`` is also the id of the message row, of the echo chunk and the handle for
    cancellation (signals.md 2.5).
    """

    id: str
    type: SignalType
    tag_name: str
    contents: SignalContents
    created_at: IsoTime
    accepted_at: IsoTime | None = None
    attributes: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    provider_options: dict[str, Any] | None = None
    transient: bool | None = None
