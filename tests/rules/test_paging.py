"""Tests of ``mastra_core.rules.paging``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mastra_core.contracts.storage import DateRange, OrderBy
from mastra_core.errors import StorageArgumentError
from mastra_core.rules import paging

__all__ = ()

T0 = datetime(2026, 1, 1, tzinfo=UTC)
T0_MS = 1_767_225_600_000
LAST_MS = 253_402_300_799_999


def page(number: Any, per_page: Any) -> paging.Page:
    return paging.check_page(number, per_page, store="acme", operation="list_things")


@pytest.mark.parametrize(
    ("number", "per_page", "expected"),
    [(0, 10, (0, 10, 10)), (3, 10, (30, 10, 40)), (2, 0, (0, 0, 0)), (7, False, (0, None, None))],
)
def test_a_page_knows_its_rows(number: int, per_page: Any, expected: tuple[Any, ...]) -> None:
    """Offset, limit, and the offset after it; ``False`` is everything."""
    found = page(number, per_page)

    assert expected == (found.offset, found.limit, found.end)


@pytest.mark.parametrize(
    ("number", "per_page"),
    [(-1, 1), (0, -1), (0, None), (None, 1), (0.0, 1), (0, 1.0), (True, 1), (0, True), ("0", 1)],
)
def test_a_bad_page_is_refused(number: Any, per_page: Any) -> None:
    """The id names store and operation."""
    with pytest.raises(StorageArgumentError) as caught:
        page(number, per_page)

    assert caught.value.id == "MASTRA_STORAGE_ACME_LIST_THINGS_INVALID_PAGE"


@pytest.mark.parametrize(
    ("number", "per_page", "pages"),
    [(0, 1, True), (None, 1, False), (1, None, False), (None, None, False), (1, False, False)],
)
def test_an_optional_page_needs_both_numbers(number: Any, per_page: Any, pages: bool) -> None:
    """With one of them, or with ``False``, everything is returned."""
    found = paging.optional_page(number, per_page, store="acme", operation="x")

    assert pages == (found is not None)


def test_behind_a_cursor_one_number_is_enough() -> None:
    """``per_page`` limits what comes behind it."""
    found = paging.cursor_page(None, 5, has_cursor=True, store="acme", operation="x")

    assert found is not None
    assert (0, 5) == (found.offset, found.limit)
    assert paging.cursor_page(None, 5, has_cursor=False, store="acme", operation="x") is None


@given(total=st.integers(0, 60), per_page=st.integers(1, 9))
def test_pages_cover_everything_and_then_say_so(total: int, per_page: int) -> None:
    """The first page without a successor is the one that holds the last row."""
    rows = list(range(total))
    seen: list[int] = []
    number = 0
    while True:
        current = page(number, per_page)
        seen += rows[current.offset : current.end]
        if not paging.has_more(current, total):
            break
        number += 1

    assert rows == seen
    assert number == max(0, (total - 1) // per_page)


def test_nothing_more_once_included_rows_complete_the_matches() -> None:
    """streaming.md 10.7."""
    assert paging.has_more_with_included(page(0, 2), 5, 4)
    assert not paging.has_more_with_included(page(0, 2), 5, 5)
    assert not paging.has_more_with_included(page(2, 2), 5, 1)


@pytest.mark.parametrize(
    ("given_range", "expected"),
    [
        (None, (None, None)),
        (DateRange(), (None, None)),
        (DateRange(start=T0, end=T0), (T0_MS, T0_MS + 1)),
        (DateRange(end=datetime.max.replace(tzinfo=UTC)), (None, None)),
        (DateRange(start=datetime.max.replace(tzinfo=UTC), end=T0), (LAST_MS, LAST_MS)),
        (
            DateRange(start=T0, end=T0, start_exclusive=True, end_exclusive=True),
            (T0_MS + 1, T0_MS),
        ),
    ],
)
def test_bounds_are_half_open_milliseconds(given_range: Any, expected: tuple[Any, ...]) -> None:
    """First inside, first behind."""
    assert expected == paging.bounds_ms(given_range)


@given(
    microseconds=st.integers(0, 5_000),
    start=st.integers(0, 5_000),
    end=st.integers(0, 5_000),
    exclusive=st.tuples(st.booleans(), st.booleans()),
)
def test_bounds_agree_with_comparing_instants(
    microseconds: int, start: int, end: int, exclusive: tuple[bool, bool]
) -> None:
    """For stored times, which are whole milliseconds, also where the bounds are not."""
    at = T0 + timedelta(milliseconds=microseconds // 1000)
    low, high = T0 + timedelta(microseconds=start), T0 + timedelta(microseconds=end)
    first, behind = paging.bounds_ms(
        DateRange(start=low, end=high, start_exclusive=exclusive[0], end_exclusive=exclusive[1])
    )

    after_start = at > low if exclusive[0] else at >= low
    before_end = at < high if exclusive[1] else at <= high
    at_ms = T0_MS + microseconds // 1000
    assert first is not None
    assert behind is not None
    assert (after_start and before_end) == (first <= at_ms < behind)


def test_orders_are_looked_up() -> None:
    """Only what is on the list, only two directions."""
    assert OrderBy(field="updatedAt") == paging.check_order(OrderBy(field="updatedAt"))
    for bad in (OrderBy(field="id"), OrderBy(direction="asc")):  # type: ignore[arg-type]  # the fault that is tested
        with pytest.raises(StorageArgumentError):
            paging.check_order(bad)
    with pytest.raises(StorageArgumentError):
        paging.check_order(OrderBy(field="updatedAt"), ("createdAt",))
