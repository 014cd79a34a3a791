"""When a cron expression fires next."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mastra_core.base.cron import next_fire_ms, parse_cron
from mastra_core.base.isotime import epoch_ms, from_epoch_ms, parse_iso, to_iso_ms
from mastra_core.errors import ConfigError


def after(expression: str, moment: str, *, timezone: str | None = "UTC") -> str:
    fires = next_fire_ms(expression, epoch_ms(parse_iso(moment)), timezone=timezone)
    return to_iso_ms(from_epoch_ms(fires)).replace(":00.000Z", "Z")


@pytest.mark.parametrize(
    ("expression", "moment", "expected"),
    [
        ("*/1 * * * *", "2026-03-01T08:00:00.123Z", "2026-03-01T08:01Z"),
        ("*/1 * * * *", "2026-03-01T08:00:00Z", "2026-03-01T08:01Z"),
        ("*/15 * * * *", "2026-03-01T23:50Z", "2026-03-02T00:00Z"),
        ("5-20/5,50 * * * *", "2026-03-01T08:20Z", "2026-03-01T08:50Z"),
        ("30/10 * * * *", "2026-03-01T08:30Z", "2026-03-01T08:40Z"),
        ("0 9 * * mon-fri", "2026-03-06T09:00Z", "2026-03-09T09:00Z"),
        ("0 9 * * 7", "2026-03-02T00:00Z", "2026-03-08T09:00Z"),
        ("0 0 13 * fri", "2026-03-01T00:00Z", "2026-03-06T00:00Z"),
        ("0 0 13 * ?", "2026-03-01T00:00Z", "2026-03-13T00:00Z"),
        ("0 0 L * *", "2026-02-01T00:00Z", "2026-02-28T00:00Z"),
        ("0 0 29 2 *", "2026-03-01T00:00Z", "2028-02-29T00:00Z"),
        ("0 0 1 JAN *", "2026-03-01T00:00Z", "2027-01-01T00:00Z"),
        ("0 30 8 * * *", "2026-03-01T08:29Z", "2026-03-01T08:30Z"),
        ("0 0 0 1 1 * 2030", "2026-03-01T00:00Z", "2030-01-01T00:00Z"),
        ("@daily", "2026-03-01T08:00Z", "2026-03-02T00:00Z"),
        ("@hourly", "2026-12-31T23:59Z", "2027-01-01T00:00Z"),
    ],
)
def test_it_fires_next(expression: str, moment: str, expected: str) -> None:
    """Strictly after the moment."""
    assert expected == after(expression, moment)


def test_seconds_are_a_field_in_front() -> None:
    """Six fields."""
    fires = next_fire_ms("*/10 * * * * *", 25_000, timezone="UTC")

    assert 30_000 == fires


@pytest.mark.parametrize(
    ("expression", "moment", "expected"),
    [
        ("0 9 * * *", "2026-03-01T00:00Z", "2026-03-01T14:00Z"),
        # Clocks go forward on 8 March at 2:00: 2:30 doesn't exist and fires at 3:30.
        ("30 2 * * *", "2026-03-07T12:00Z", "2026-03-08T07:30Z"),
        ("30 2 * * *", "2026-03-08T07:30Z", "2026-03-09T06:30Z"),
        ("*/30 * * * *", "2026-03-08T06:45Z", "2026-03-08T07:00Z"),
        # Clocks go back on 1 November at 2:00: 1:30 comes twice and fires the first time.
        ("30 1 * * *", "2026-11-01T00:00Z", "2026-11-01T05:30Z"),
        ("30 1 * * *", "2026-11-01T05:30Z", "2026-11-02T06:30Z"),
        # What fires at any hour fires in both.
        ("30 * * * *", "2026-11-01T05:30Z", "2026-11-01T06:30Z"),
        ("30 * * * *", "2026-11-01T06:30Z", "2026-11-01T07:30Z"),
    ],
)
def test_fields_mean_the_local_time(expression: str, moment: str, expected: str) -> None:
    """Also where clocks jump."""
    assert expected == after(expression, moment, timezone="America/New_York")


def test_without_a_zone_the_machine_decides() -> None:
    """A minute is a minute everywhere."""
    assert "2026-03-01T08:01Z" == after("* * * * *", "2026-03-01T08:00Z", timezone=None)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("* * * *", "4 fields"),
        ("* * * * * * * *", "8 fields"),
        ("60 * * * *", "0 … 59"),
        ("5-1 * * * *", "0 … 59"),
        ("*/0 * * * *", "0 … 59"),
        ("a * * * *", "can't be read"),
        ("* * * * 1#2", "can't be read"),
        ("* * 0 * *", "1 … 31"),
        ("", "0 fields"),
    ],
)
def test_a_wrong_expression_says_what_is_wrong(expression: str, text: str) -> None:
    """The field and its range."""
    with pytest.raises(ConfigError, match=text):
        parse_cron(expression)


def test_what_never_fires_is_an_error() -> None:
    """The 30th of February, and a year that is over."""
    with pytest.raises(ConfigError, match="never fires"):
        after("0 0 30 2 *", "2026-01-01T00:00Z")
    with pytest.raises(ConfigError, match="never fires"):
        after("0 0 0 1 1 * 2020", "2026-01-01T00:00Z")


def test_an_unknown_zone_is_an_error() -> None:
    """It is named."""
    with pytest.raises(ConfigError, match="Mars/Olympus"):
        after("* * * * *", "2026-01-01T00:00Z", timezone="Mars/Olympus")


@given(
    st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.sampled_from(["*/7 * * * *", "0 */5 * * *", "15 3 1,15 * *", "0 0 * * 0", "@monthly"]),
    st.sampled_from(["UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]),
)
def test_it_always_moves_on_and_skips_nothing(
    moment: datetime, expression: str, timezone: str
) -> None:
    """Between a moment and its next firing there is no other one."""
    start = epoch_ms(moment)
    fires = next_fire_ms(expression, start, timezone=timezone)
    middle = (start + fires) // 2

    assert fires > start
    assert fires == next_fire_ms(expression, middle, timezone=timezone)
