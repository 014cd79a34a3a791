"""What a failed delivery costs: attempts, pauses, the end (notifications.md 9, S20)."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from mastra_core.notifications.settings import NotificationSettings
from mastra_core.wire.notifications import NotificationRecord

__all__ = (
    "MAX_NOTIFICATION_DELIVERY_ATTEMPTS",
    "FailureUpdate",
    "error_text",
    "resolve_delivery_failure_update",
    "retry_delay_ms",
)

MAX_NOTIFICATION_DELIVERY_ATTEMPTS: Final = 5
"""After so many failures a record is ``failed`` (notifications.md 9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureUpdate:
    """The attempts of a record after one more failure, and whether it was the last."""

    attempts: int
    is_final: bool


def resolve_delivery_failure_update(record: NotificationRecord) -> FailureUpdate:
    """One attempt more; a record that is over the limit already keeps its number."""
    attempts = record.delivery_attempts
    if attempts >= MAX_NOTIFICATION_DELIVERY_ATTEMPTS:
        return FailureUpdate(attempts=attempts, is_final=True)
    attempts += 1
    return FailureUpdate(attempts=attempts, is_final=attempts >= MAX_NOTIFICATION_DELIVERY_ATTEMPTS)


def retry_delay_ms(failures: int, settings: NotificationSettings, random: Random) -> int:
    """
    How long a record rests after so many failures (1 for the first): doubling, with a cap,
    and spread by chance so that many records of one outage don't come back together.
    """
    doublings = min(max(failures, 1) - 1, 32)
    full: int = min(settings.retry_first_ms * 2**doublings, settings.retry_max_ms)
    spread = 1 + settings.retry_jitter * (2 * random.random() - 1)
    return min(round(full * spread), settings.retry_max_ms)


def error_text(error: BaseException) -> str:
    """What a person reads in the record."""
    return str(error) or type(error).__name__
