"""Trying again, a bounded number of times, only what is safe to repeat."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from mastra_core.base.clock import Clock
from mastra_core.errors import MastraError

__all__ = ("RetryPolicy", "retry")

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how soon to try again: exponential, bounded, with jitter."""

    #: All tries together; 1 means no second one.
    attempts: int = 3
    first_delay_ms: float = 50
    factor: float = 2.0
    max_delay_ms: float = 5_000
    #: The share of a delay that is left to chance, 0 to 1.
    jitter: float = 0.5

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {self.attempts}")
        if min(self.first_delay_ms, self.max_delay_ms) < 0 or self.factor < 1:
            raise ValueError("delays can't be negative, and factor is at least 1")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must be between 0 and 1, not {self.jitter}")

    def delay_ms(self, failures: int, random: Random) -> float:
        """How long to wait after so many failures (1 for the first)."""
        try:
            full = self.first_delay_ms * self.factor ** (failures - 1)
        except OverflowError:
            full = self.max_delay_ms
        full = min(full, self.max_delay_ms)
        return full * (1 - self.jitter * random.random())


async def retry(
    operation: Callable[[], Awaitable[T]],
    *,
    clock: Clock,
    random: Random,
    policy: RetryPolicy = RetryPolicy(),
    what: str = "operation",
) -> T:
    """
    The result of the operation, which is called again after a ``retryable`` error.

    Any other exception passes at once; after the last try the error passes as it is.
    """
    failures = 0
    while True:
        try:
            return await operation()
        except MastraError as exc:
            failures += 1
            if not exc.retryable or failures >= policy.attempts:
                raise
            delay_ms = policy.delay_ms(failures, random)
            logger.warning(
                "operation failed, trying again",
                extra={
                    "operation": what,
                    "failures": failures,
                    "delay_ms": delay_ms,
                    "error_id": exc.id,
                },
            )
        await clock.sleep(delay_ms / 1000)
