"""Pages of lists: which are refused, what they cover, whether more follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from mastra_core.base.isotime import epoch_ms, truncate_ms
from mastra_core.contracts.storage.memory import DateRange, OrderBy
from mastra_core.errors import StorageArgumentError, shown
from mastra_core.rules.arguments import MAX_COUNT, check_choice, moment

__all__ = (
    "Page",
    "PerPage",
    "bounds_ms",
    "check_order",
    "check_page",
    "cursor_page",
    "has_more",
    "has_more_with_included",
    "optional_page",
)

PerPage = int | Literal[False]
"""Rows on a page; False for all."""

_LAST_MS: Final = epoch_ms(truncate_ms(datetime.max.replace(tzinfo=UTC)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A checked page. ``limit`` is None when everything was asked for."""

    number: int
    per_page: PerPage
    offset: int
    limit: int | None

    @property
    def end(self) -> int | None:
        """Offset after the last row of the page; None without a limit."""
        return None if self.limit is None else self.offset + self.limit


def check_page(page: object, per_page: object, *, store: str, operation: str) -> Page:
    """
    The page of a list that always pages (streaming.md 10.6, 10.7).

    ``per_page=False`` is everything, whatever the page; ``per_page=0`` is no row.

    Raises:
        StorageArgumentError: ``page`` isn't a whole number >= 0, ``per_page`` neither that
            nor False, or the page lies behind 2^53 rows (id ``MASTRA_STORAGE_<STORE>_<OPERATION>_INVALID_PAGE``).
    """
    number = _check_number("page", page, store, operation)
    if per_page is False:
        return Page(number=number, per_page=False, offset=0, limit=None)
    rows = _check_number("per_page", per_page, store, operation)
    _check_number("page * per_page", number * rows, store, operation)
    return Page(number=number, per_page=rows, offset=number * rows, limit=rows)


def optional_page(page: object, per_page: object, *, store: str, operation: str) -> Page | None:
    """
    The page of a list that pages only when both are given (snapshots.md 5.5).

    Returns:
        None if everything is to be returned: one of the two is missing, or ``per_page`` is
        False. What is given is checked all the same.

    Raises:
        StorageArgumentError: As ``check_page``.
    """
    if page is not None:
        _check_number("page", page, store, operation)
    if per_page is not None and per_page is not False:
        _check_number("per_page", per_page, store, operation)
    if page is None or per_page is None or per_page is False:
        return None
    return check_page(page, per_page, store=store, operation=operation)


def cursor_page(
    page: object, per_page: object, *, has_cursor: bool, store: str, operation: str
) -> Page | None:
    """
    As ``optional_page``; behind a cursor ``per_page`` alone is enough and ``page`` counts from
    the cursor.
    """
    if has_cursor and page is None:
        page = 0
    return optional_page(page, per_page, store=store, operation=operation)


def check_order(order: OrderBy, fields: Sequence[str] = ("createdAt", "updatedAt")) -> OrderBy:
    """
    An order from the allow list.

    Raises:
        StorageArgumentError: Rows of this kind can't be ordered so.
    """
    check_choice(order.field, "order_by.field", fields)
    check_choice(order.direction, "order_by.direction", ("ASC", "DESC"))
    return order


def bounds_ms(date_range: DateRange | None) -> tuple[int | None, int | None]:
    """
    The range as epoch milliseconds: first that is inside, first that is behind it.

    Raises:
        StorageArgumentError: A bound has no time zone.
    """
    if date_range is None:
        return None, None
    low = high = None
    if date_range.start is not None:
        low = _first_ms(date_range.start, "start", exclusive=date_range.start_exclusive)
    if date_range.end is not None:
        high = _first_ms(date_range.end, "end", exclusive=not date_range.end_exclusive)
    if low is not None and low > _LAST_MS:
        return _LAST_MS, _LAST_MS  # holds nothing
    # Behind the last of all times there is no other one that could be written.
    return low, None if high is not None and high > _LAST_MS else high


def _first_ms(bound: datetime, name: str, *, exclusive: bool) -> int:
    """The first whole millisecond at, or behind, an instant that may lie between two."""
    whole = moment(bound, name)
    is_between = whole != bound
    return epoch_ms(whole) + (1 if exclusive or is_between else 0)


def has_more(page: Page, total: int) -> bool:
    """Whether rows follow this page, of ``total`` matches in the requested order."""
    return page.end is not None and page.end < total


def has_more_with_included(page: Page, total: int, returned_matches: int) -> bool:
    """
    Whether rows follow a page that was joined with ``include`` rows (streaming.md 10.7).

    Args:
        page: The page that was asked for.
        total: All matches of the filter.
        returned_matches: How many matches are among the returned rows, page and included
            rows together; if that is all of them nothing follows.
    """
    return has_more(page, total) and returned_matches < total


def _check_number(name: str, value: object, store: str, operation: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT:
        return value
    allowed = "a whole number >= 0 and < 2^53" + (", or False" if name == "per_page" else "")
    raise StorageArgumentError(
        f"{name} must be {allowed}, not {shown(value)}.",
        id=f"MASTRA_STORAGE_{store.upper()}_{operation.upper()}_INVALID_PAGE",
        details={"argument": name},
    )
