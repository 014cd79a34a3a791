"""Stored messages, format 2 (table ``mastra_messages``; streaming.md 10.1-10.3).

``content`` stays a plain JSON object: its parts are an open set, and a part that we don't
know must survive a round trip untouched.
"""

from __future__ import annotations

from typing import Any

from mastra_core.wire.base import IsoTime, WireModel

__all__ = ("FILLER_TYPE", "Message")

#: What the ``type`` column holds when a message has no type of its own; removed on read.
FILLER_TYPE = "v2"


class Message(WireModel):
    """One message of a thread.

    ``role`` is ``user``, ``assistant``, ``system`` (never stored) or ``signal``; ``type`` is
    the tag name of a signal and absent otherwise.
    """

    id: str
    role: str
    created_at: IsoTime
    thread_id: str | None = None
    resource_id: str | None = None
    type: str | None = None
    #: ``{"format": 2, "parts": [...], "content"?, "metadata"?, "providerMetadata"?, ...}``
    content: dict[str, Any]
