"""The numbers of the event engine, with units, defaults and ranges (pubsub_and_lease.md 3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mastra_core.contracts.pubsub import DeadLetter
from mastra_core.errors import ConfigError

__all__ = ("BusSettings",)


@dataclass(frozen=True, slots=True, kw_only=True)
class BusSettings:
    """How an engine delivers; adapters fill it from their own settings."""

    #: An event of a group that isn't settled within this becomes claimable again.
    ack_wait_ms: int = 60_000
    #: While a handler runs its event is kept for so long; 0: never longer than ``ack_wait_ms``.
    max_processing_ms: int = 3_600_000
    #: Deliveries of one event to one group; ``math.inf`` never gives up.
    max_delivery_attempts: float = 5
    retry_base_ms: int = 100
    retry_cap_ms: int = 30_000
    #: Part by which a delay is varied, up and down.
    retry_jitter: float = 0.2
    #: How long closing waits for running handlers.
    drain_timeout_ms: int = 5_000
    #: Events that one claim takes at most; small, so that members share.
    claim_batch: int = 10
    #: Events that one read takes at most.
    read_batch: int = 100
    #: Events that one write carries at most while another is on its way (E4).
    write_batch: int = 100
    #: ``local_only`` events that wait for one slow subscriber; the oldest go first.
    local_backlog: int = 10_000
    #: Told about each event that was given up; may be a coroutine function.
    on_dead: Callable[[DeadLetter], Any] | None = None

    def __post_init__(self) -> None:
        for name in (
            "ack_wait_ms",
            "retry_base_ms",
            "claim_batch",
            "read_batch",
            "write_batch",
            "local_backlog",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)!r}, but must be at least 1.")
        for name in ("max_processing_ms", "retry_cap_ms", "drain_timeout_ms", "retry_jitter"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} is {getattr(self, name)!r}, but must not be negative.")
        attempts = self.max_delivery_attempts
        if math.isnan(attempts) or attempts < 0:
            raise ConfigError(
                f"max_delivery_attempts is {attempts!r}, but must be a positive number or inf."
            )
