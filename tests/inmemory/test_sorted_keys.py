"""Tests of ``mastra_core.inmemory.storage.sorted_keys``."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from mastra_core.inmemory.storage.sorted_keys import SortedKeys

__all__ = ()

KEYS = st.tuples(st.integers(0, 30), st.sampled_from("abc"))


@given(st.lists(st.tuples(st.booleans(), KEYS)), st.integers(0, 12), st.integers(0, 12))
def test_it_is_a_sorted_set(changes: list[tuple[bool, tuple[int, str]]], a: int, b: int) -> None:
    """Whatever is put in and taken out, it reads like a sorted list."""
    keys: SortedKeys[tuple[int, str]] = SortedKeys()
    model: set[tuple[int, str]] = set()
    for is_added, key in changes:
        if is_added:
            keys.add(key)
            model.add(key)
        else:
            keys.discard(key)
            model.discard(key)

    expected = sorted(model)
    assert len(expected) == len(keys)
    assert (expected, expected[::-1]) == (list(keys), list(reversed(keys)))
    assert expected[a : max(a, b)] == list(keys.ascending(a, max(a, b)))
    assert expected[a : max(a, b)][::-1] == list(keys.descending(a, max(a, b)))
    assert sum(key < (15,) for key in expected) == keys.rank((15,))


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32))
def test_it_is_one_over_many_chunks(seed: int) -> None:
    """Pages, ranks and both directions agree with a list of thousands."""
    rng = random.Random(seed)
    keys: SortedKeys[tuple[int, int]] = SortedKeys()
    numbers = rng.sample(range(100_000), 6_000)
    for number in numbers:
        keys.add((number, 0))
    for number in rng.sample(numbers, 3_000):
        keys.discard((number, 0))
        numbers.remove(number)

    expected = sorted((number, 0) for number in numbers)
    assert expected == list(keys)
    for start in (0, 1, 511, 1024, 2_990, 3_000):
        assert expected[start : start + 20] == list(keys.ascending(start, start + 20))
        page = expected[max(0, len(expected) - start - 20) : len(expected) - start][::-1]
        stop = len(keys) - start
        assert page == list(keys.descending(max(0, stop - 20), stop))
    for bound in (0, 500, 99_999):
        assert sum(key < (bound,) for key in expected) == keys.rank((bound,))


def test_an_empty_one_reads_as_nothing() -> None:
    """Also from a position that isn't there."""
    keys: SortedKeys[tuple[int]] = SortedKeys()
    keys.discard((1,))

    assert ([], [], 0) == (list(keys.ascending(3)), list(keys.descending(0, 5)), keys.rank((1,)))
