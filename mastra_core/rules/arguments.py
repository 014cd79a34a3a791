"""Arguments of store calls: what is refused before anything is touched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from mastra_core.base.isotime import truncate_ms
from mastra_core.errors import StorageArgumentError, shown

__all__ = (
    "MAX_COUNT",
    "check_choice",
    "check_limit",
    "check_text",
    "check_thread_ids",
    "choices",
    "moment",
)

#: The largest number of rows that can be asked for: what every peer can write.
MAX_COUNT: Final = 2**53 - 1


def check_text(value: object, name: str) -> str:
    """
    A text that isn't empty.

    Raises:
        StorageArgumentError: It is empty, or no text.
    """
    if not isinstance(value, str) or not value:
        raise StorageArgumentError(
            f"{name} must be a text that is not empty, not {shown(value)}.",
            details={"argument": name},
        )
    return value


def check_thread_ids(value: str | Sequence[str]) -> list[str]:
    """
    One thread or several, each once.

    Raises:
        StorageArgumentError: An id is empty, or no text.
    """
    if isinstance(value, str) or not isinstance(value, Iterable):
        return [check_text(value, "thread_id")]
    return list(dict.fromkeys(check_text(item, "thread_id") for item in value))


def check_choice(value: object, name: str, allowed: Iterable[str]) -> str:
    """
    One of a closed set of words.

    Raises:
        StorageArgumentError: It is another value.
    """
    if not isinstance(value, str) or value not in allowed:
        raise StorageArgumentError(
            f"{name} must be one of {', '.join(allowed)}, not {shown(value)}.",
            details={"argument": name},
        )
    return value


def check_limit(limit: object, name: str = "limit") -> int | None:
    """
    None for no limit, or a whole number of at least 1 (notifications.md 3.4).

    Raises:
        StorageArgumentError: It is below 1, too large to be written, or no whole number.
    """
    if limit is None:
        return None
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_COUNT:
        raise StorageArgumentError(
            f"{name} must be a whole number of at least 1 and below 2^53, not {shown(limit)}.",
            details={"argument": name},
        )
    return limit


def choices(value: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """A filter that may be one word or several; None if it doesn't filter.

    An absent or empty word doesn't filter; an empty list matches nothing.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return (value,)
    return tuple(dict.fromkeys(value))


def moment(value: datetime, name: str = "now") -> datetime:
    """
    An instant as it is stored: UTC, cut to milliseconds.

    Raises:
        StorageArgumentError: It has no time zone, so nobody knows which instant is meant.
    """
    if isinstance(value, datetime) and value.tzinfo is UTC:
        return truncate_ms(value)
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise StorageArgumentError(
            f"{name} must be a datetime with a time zone, not {shown(value)}.",
            details={"argument": name},
        )
    try:
        return truncate_ms(value.astimezone(UTC))
    except OverflowError:
        raise StorageArgumentError(
            f"{name} lies outside the years 1 to 9999 in UTC: {shown(value)}.",
            details={"argument": name},
        ) from None
