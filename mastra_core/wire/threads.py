"""Threads and resources (tables ``mastra_threads``, ``mastra_resources``; streaming.md 10)."""

from __future__ import annotations

from typing import Any

from mastra_core.wire.base import IsoTime, WireModel

__all__ = ("Resource", "Thread")


class Thread(WireModel):
    """One conversation (table ``mastra_threads``)."""

    id: str
    resource_id: str
    #: May be empty; the column is not nullable.
    title: str = ""
    metadata: dict[str, Any] | None = None
    created_at: IsoTime
    updated_at: IsoTime


class Resource(WireModel):
    """Whom threads belong to, with its working memory (table ``mastra_resources``)."""

    id: str
    working_memory: str | None = None
    metadata: dict[str, Any] | None = None
    created_at: IsoTime
    updated_at: IsoTime
