"""Cron expressions: when does one fire next?

Five fields (minute hour day-of-month month day-of-week), six with seconds in front, seven
with a year behind. Lists, ranges, steps, names of months and days, ``L`` (last day) and
``?`` are understood, and the short forms ``@hourly`` … ``@yearly``. If both days are
restricted, either suffices.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mastra_core.base.isotime import epoch_ms, from_epoch_ms
from mastra_core.errors import ConfigError

__all__ = ("Cron", "next_fire_ms", "parse_cron")

_MONTHS: Final = {name.lower(): n for n, name in enumerate(calendar.month_abbr) if name}
_DAYS: Final = {name: n for n, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_SHORT: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS: Final = ("second", "minute", "hour", "day", "month", "weekday", "year")
_FIRST_YEAR: Final = 1970
_LAST_YEAR: Final = 2199
#: A leap day that falls on a certain weekday comes back within so many years.
_HORIZON_YEARS: Final = 41
_HOURS: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """One parsed expression: the values that each field allows."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    is_last_day: bool
    months: frozenset[int]
    weekdays: frozenset[int]
    years: frozenset[int] | None
    #: Whether the field says more than ``*``.
    has_days: bool
    has_weekdays: bool

    def next_after(self, after: datetime, zone: tzinfo | None) -> datetime | None:
        """
        The first firing strictly after a moment; None if there is none.

        Clocks that jump: a local time that is skipped fires as much later as they jumped. One
        that comes twice fires the first time, or both times if any hour will do.

        Args:
            after: The moment.
            zone: Whose local time the fields mean; None is that of this machine.
        """
        after = after.astimezone(UTC)
        folds = (0, 1) if len(self.hours) == _HOURS else (0,)
        found = [self._next_on_wall(after, zone, fold) for fold in folds]
        return min((moment for moment in found if moment is not None), default=None)

    def _next_on_wall(self, after: datetime, zone: tzinfo | None, fold: int) -> datetime | None:
        today = after.astimezone(zone).replace(
            hour=0, minute=0, second=0, microsecond=0, tzinfo=None, fold=fold
        )
        for date in self._dates(today):
            for hour in self.hours:
                if _moment_of(date.replace(hour=hour, minute=59, second=59), zone) <= after:
                    continue
                for minute in self.minutes:
                    for second in self.seconds:
                        wall = date.replace(hour=hour, minute=minute, second=second)
                        if (moment := _moment_of(wall, zone)) > after:
                            return moment
        return None

    def _dates(self, first: datetime) -> Iterator[datetime]:
        date = first
        last = min(first.year + _HORIZON_YEARS, _LAST_YEAR)
        while date.year <= last:
            if self.years is not None and date.year not in self.years:
                date = date.replace(year=date.year + 1, month=1, day=1)
            elif date.month not in self.months:
                date = (date.replace(day=1) + timedelta(days=32)).replace(day=1)
            else:
                if self._fits_day(date):
                    yield date
                date += timedelta(days=1)

    def _fits_day(self, date: datetime) -> bool:
        last = calendar.monthrange(date.year, date.month)[1]
        by_date = date.day in self.days or (self.is_last_day and date.day == last)
        by_weekday = (date.weekday() + 1) % 7 in self.weekdays
        if self.has_days and self.has_weekdays:
            return by_date or by_weekday
        return by_date and by_weekday


def _moment_of(wall: datetime, zone: tzinfo | None) -> datetime:
    return wall.replace(tzinfo=zone).astimezone(UTC)


@lru_cache(maxsize=256)
def parse_cron(expression: str) -> Cron:
    """
    Read an expression.

    Raises:
        ConfigError: It has a wrong number of fields, or a field makes no sense.
    """
    text = _SHORT.get(expression.strip().lower(), expression)
    fields = text.split()
    if len(fields) == len(_FIELDS) - 2:
        fields = ["0", *fields]
    if len(fields) == len(_FIELDS) - 1:
        fields = [*fields, "*"]
    if len(fields) != len(_FIELDS):
        raise ConfigError(
            f"The cron expression {expression!r} has {len(text.split())} fields; 5 to 7 are needed."
        )
    second, minute, hour, day, month, weekday, year = fields

    def values(field: str, low: int, high: int, names: dict[str, int] | None = None) -> set[int]:
        return _values(field, low, high, names or {}, expression)

    plain_days = [part for part in day.split(",") if part.upper() != "L"]
    return Cron(
        seconds=tuple(sorted(values(second, 0, 59))),
        minutes=tuple(sorted(values(minute, 0, 59))),
        hours=tuple(sorted(values(hour, 0, 23))),
        days=frozenset(values(",".join(plain_days), 1, 31) if plain_days else ()),
        is_last_day=len(plain_days) != len(day.split(",")),
        months=frozenset(values(month, 1, 12, _MONTHS)),
        weekdays=frozenset(n % 7 for n in values(weekday, 0, 7, _DAYS)),
        years=None if year == "*" else frozenset(values(year, _FIRST_YEAR, _LAST_YEAR)),
        has_days=day not in {"*", "?"},
        has_weekdays=weekday not in {"*", "?"},
    )


def _values(field: str, low: int, high: int, names: dict[str, int], expression: str) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, slash, step_text = part.partition("/")
        step = _number(step_text, {}, expression, field) if slash else 1
        if span in {"*", "?"}:
            first, last = low, high
        else:
            start, dash, end = span.partition("-")
            first = _number(start, names, expression, field)
            last = _number(end, names, expression, field) if dash else (high if slash else first)
        if step < 1 or not low <= first <= last <= high:
            raise ConfigError(
                f"The field {field!r} of the cron expression {expression!r} is not in "
                f"{low} … {high}."
            )
        found.update(range(first, last + 1, step))
    return found


def _number(text: str, names: dict[str, int], expression: str, field: str) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not text.isascii() or not text.isdigit():
        raise ConfigError(
            f"The field {field!r} of the cron expression {expression!r} can't be read."
        )
    return int(text)


def next_fire_ms(expression: str, after_ms: int, *, timezone: str | None = None) -> int:
    """
    When the expression fires next, in milliseconds since 1970.

    Args:
        expression: See the module.
        after_ms: Firings at this very moment don't count.
        timezone: An IANA name; None is the zone of this machine.

    Raises:
        ConfigError: The expression or the zone is wrong, or it never fires again.
    """
    after = from_epoch_ms(after_ms)
    zone = None if timezone is None else _zone(timezone)
    fires = parse_cron(expression).next_after(after, zone)
    if fires is None:
        raise ConfigError(f"The cron expression {expression!r} never fires after {after}.")
    return epoch_ms(fires)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ConfigError(f"Unknown time zone {name!r}.") from error
