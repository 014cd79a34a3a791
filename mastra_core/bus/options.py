"""The options that every bus adapter reads from its URL or configuration."""

from __future__ import annotations

import math
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from mastra_core.bus.settings import BusSettings

__all__ = ("BusOptions",)


class BusOptions(BaseModel):
    """Base of an adapter's settings model; times in milliseconds."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    url: str = ""
    #: An event of a group that isn't settled within this becomes claimable again.
    ack_wait_ms: int = Field(default=60_000, ge=1)
    #: While a handler runs its event is kept for so long; 0: never longer than ``ack_wait_ms``.
    max_processing_ms: int = Field(default=3_600_000, ge=0)
    #: ``inf`` or 0 never gives up.
    max_delivery_attempts: float = Field(default=5, ge=0)
    #: How long the first repetition waits; each further one twice as long.
    retry_base_ms: int = Field(default=100, ge=1)
    #: The longest wait between two repetitions.
    retry_cap_ms: int = Field(default=30_000, ge=0)
    #: How long closing waits for handlers that are at work.
    drain_timeout_ms: int = Field(default=5_000, ge=0)
    #: How long an id is remembered: an event with the same one isn't stored again.
    dedupe_window_ms: int = Field(default=120_000, ge=1)
    #: Retained events per topic; slower readers miss what went before.
    max_entries: int = Field(default=10_000, ge=1)

    @field_validator("max_delivery_attempts")
    @classmethod
    def _is_a_number(cls, value: float) -> float:
        if math.isnan(value):
            raise ValueError("must be a number")
        return value

    def bus_settings(self) -> BusSettings:
        """What the engine needs of them."""
        return BusSettings(
            ack_wait_ms=self.ack_wait_ms,
            max_processing_ms=self.max_processing_ms,
            max_delivery_attempts=self.max_delivery_attempts,
            retry_base_ms=self.retry_base_ms,
            retry_cap_ms=self.retry_cap_ms,
            drain_timeout_ms=self.drain_timeout_ms,
        )
