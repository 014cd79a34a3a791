"""Times are written as JavaScript does, and read from whatever people write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mastra_core.base.isotime import epoch_ms, from_epoch_ms, parse_iso, to_iso_ms, truncate_ms
from mastra_core.errors import WireDecodeError, WireEncodeError

BERLIN = timezone(timedelta(hours=1))
aware_times = st.datetimes(
    min_value=datetime(2, 1, 1),  # noqa: DTZ001 - hypothesis wants naive bounds
    max_value=datetime(9998, 1, 1),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, BERLIN, timezone(timedelta(hours=-11, minutes=-30))]),
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2026, 1, 31, 8, tzinfo=UTC), "2026-01-31T08:00:00.000Z"),
        (datetime(2026, 1, 31, 8, 0, 0, 999_999, tzinfo=UTC), "2026-01-31T08:00:00.999Z"),
        (datetime(2026, 1, 31, 8, tzinfo=BERLIN), "2026-01-31T07:00:00.000Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000Z"),
    ],
)
def test_a_time_is_written_in_utc_with_three_decimals(value: datetime, text: str) -> None:
    """Below the millisecond is cut, never rounded."""
    assert to_iso_ms(value) == text


@given(aware_times, aware_times)
def test_texts_sort_as_the_times_do(one: datetime, other: datetime) -> None:
    """Databases that compare text agree with us."""
    assert (to_iso_ms(one) < to_iso_ms(other)) == (
        truncate_ms(one.astimezone(UTC)) < truncate_ms(other.astimezone(UTC))
    )


@given(aware_times)
def test_a_written_time_reads_back(value: datetime) -> None:
    """A value equals its stored self once it has whole milliseconds."""
    assert parse_iso(to_iso_ms(value)) == truncate_ms(value)
    assert from_epoch_ms(epoch_ms(value)) == truncate_ms(value)


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T07:00:00.123Z",
        "2026-01-31T07:00:00.123+00:00",
        "2026-01-31T08:00:00.123+0100",
        "2026-01-31T08:00:00.123+01",
        "2026-01-31 08:00:00.123 +01:00",
        "2026-01-31 07:00:00.123456",
        "2026-01-31T07:00:00.123456789Z",
        "2026-01-31 08:00:00.1234567891+01",
        " 2026-01-31T07:00:00.123Z\n",
    ],
)
def test_common_forms_are_read(text: str) -> None:
    """Servers and people write times in many ways; UTC is meant where nothing is said."""
    assert parse_iso(text) == datetime(2026, 1, 31, 7, 0, 0, 123_000, tzinfo=UTC)
    assert parse_iso(text).tzinfo is UTC


def test_a_bare_date_is_midnight_utc() -> None:
    """As in JavaScript."""
    assert parse_iso("2026-01-31") == datetime(2026, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "0001-01-01T00:00:00+05:00", "12"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """One typed error that shows the text."""
    with pytest.raises(WireDecodeError, match=r"year|time"):
        parse_iso(text)


@pytest.mark.parametrize("write", [to_iso_ms, epoch_ms])
def test_naive_times_are_refused(write: object) -> None:
    """Nobody knows when they are."""
    with pytest.raises(WireEncodeError, match="naive"):
        write(datetime(2026, 1, 1))  # type: ignore[operator]  # noqa: DTZ001 - on purpose


def test_times_that_utc_cant_hold_are_refused() -> None:
    """The last hour of year 9999 west of Greenwich lies in year 10000."""
    with pytest.raises(WireEncodeError, match="9999"):
        to_iso_ms(datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))))


def test_milliseconds_count_from_1970_exactly() -> None:
    """Integers, also before 1970 and where floats would be off by one."""
    assert epoch_ms(datetime(1970, 1, 1, 0, 0, 0, 1999, tzinfo=UTC)) == 1
    assert epoch_ms(datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)) == -1
    assert from_epoch_ms(-1) == datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    assert from_epoch_ms(1.9) == from_epoch_ms(1)


@pytest.mark.parametrize("number", [10**18, float("nan"), float("inf")])
def test_numbers_that_are_no_time_are_refused(number: float) -> None:
    """One typed error."""
    with pytest.raises(WireDecodeError):
        from_epoch_ms(number)
