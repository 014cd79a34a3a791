"""Times as JavaScript writes them: UTC, exactly three decimals, ``Z``.

Stored times are compared as text by some databases, so there is one
formatter, and it cuts below the millisecond instead of rounding.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from mastra_core.errors import WireDecodeError, WireEncodeError

__all__ = ("epoch_ms", "from_epoch_ms", "in_utc", "parse_iso", "to_iso_ms", "truncate_ms")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_DATE_ONLY: Final = re.compile(r"\d{4}-\d{2}-\d{2}\Z")
_LONG_FRACTION: Final = re.compile(r"(\.\d{6})\d+")
_SHORT_OFFSET: Final = re.compile(r"([+-]\d{2})\Z")


def to_iso_ms(value: datetime) -> str:
    """
    Write a time as JavaScript does, such as ``2026-01-31T08:00:00.000Z``.

    Raises:
        WireEncodeError: The time is naive, so nobody knows when it is.
    """
    if value.tzinfo is not UTC:
        value = in_utc(value)
    return value.isoformat(timespec="milliseconds")[:-6] + "Z"


def in_utc(value: datetime) -> datetime:
    """
    The same instant in UTC.

    Raises:
        WireEncodeError: The time is naive, so nobody knows when it is, or it has no UTC form.
    """
    if value.utcoffset() is None:
        raise WireEncodeError(reason=f"is a naive time, {value.isoformat()}")
    try:
        return value.astimezone(UTC)
    except OverflowError as exc:
        raise WireEncodeError(reason=f"is outside the years 1 to 9999 in UTC, {value}") from exc


def parse_iso(text: str) -> datetime:
    """
    Read any common ISO 8601 form as an aware UTC time in whole milliseconds.

    Accepts ``Z``, offsets with or without colon or minutes, a blank for ``T``,
    any number of decimals, and bare dates. Without an offset UTC is meant.

    Raises:
        WireDecodeError: The text isn't a time.
    """
    plain = text.strip()
    try:
        parsed = datetime.fromisoformat(plain)
    except ValueError:
        parsed = _parse_oddly_written(plain, text)
    try:
        aware = parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except OverflowError as exc:
        raise WireDecodeError(f"{text!r} is outside the years 1 to 9999.") from exc
    return truncate_ms(aware)


def _parse_oddly_written(plain: str, text: str) -> datetime:
    tidy = _LONG_FRACTION.sub(r"\1", plain.replace(" +", "+").replace(" -", "-"))
    if not _DATE_ONLY.match(tidy):
        tidy = _SHORT_OFFSET.sub(r"\1:00", tidy)
    try:
        return datetime.fromisoformat(tidy)
    except ValueError as exc:
        raise WireDecodeError(f"{text!r} is not an ISO 8601 time.") from exc


def truncate_ms(value: datetime) -> datetime:
    """The time without what lies below the millisecond; never rounded up."""
    below = value.microsecond % 1000
    return value.replace(microsecond=value.microsecond - below) if below else value


def epoch_ms(value: datetime) -> int:
    """
    Milliseconds since 1970; exact, as ``timestamp()`` is not.

    Raises:
        WireEncodeError: The time is naive.
    """
    if value.tzinfo is not UTC:
        value = in_utc(value)
    return (value - _EPOCH) // _MILLISECOND


def from_epoch_ms(milliseconds: float) -> datetime:
    """
    The aware UTC time of so many milliseconds since 1970.

    Raises:
        WireDecodeError: Not a number, or outside the years 1 to 9999.
    """
    try:
        return _EPOCH + timedelta(milliseconds=int(milliseconds // 1))
    except (OverflowError, ValueError) as exc:
        raise WireDecodeError(f"{milliseconds!r} ms since 1970 is not a time.") from exc
