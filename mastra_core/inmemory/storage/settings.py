"""Options of ``memory:`` as a store."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from mastra_core.inmemory.url import MemoryUrl
from mastra_core.rules.snapshots import DEFAULT_MAX_BYTES

__all__ = ("InMemoryStorageSettings",)


class InMemoryStorageSettings(BaseModel):
    """What a URL may say about an in-memory store."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    #: ``memory:name``; stores of one context and name share their data.
    url: MemoryUrl = "memory:"
    #: Size limit of an encoded run snapshot (snapshots.md G12).
    max_snapshot_bytes: int = Field(default=DEFAULT_MAX_BYTES, ge=1)
