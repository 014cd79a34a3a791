"""What a process remembers of what it wrote to a topic."""

from __future__ import annotations

from mastra_sql.bus.remembered import Remembered


def test_what_was_written_is_found_right_behind_what_was_read() -> None:
    """A reader at the end gets what came since, with its places."""
    own = Remembered()
    own.append(7, 3, ["a", "b", "c"])

    assert [(2, "b"), (3, "c")] == own.after((7, 1), 10)
    assert [(2, "b")] == own.after((7, 1), 1)
    assert own.last == 3


def test_nothing_is_found_for_places_of_others() -> None:
    """Behind a gap, at the end, or in another epoch only the database knows."""
    own = Remembered()
    own.append(7, 3, ["c"])

    assert [] == own.after((7, 1), 10)
    assert [] == own.after((7, 3), 10)
    assert [] == own.after((6, 2), 10)


def test_what_does_not_follow_begins_anew() -> None:
    """Somebody wrote in between, an answer came late, or the topic was cleared."""
    own = Remembered()

    assert not own.append(7, 1, ["a"])
    assert own.append(7, 2, ["b"])
    assert not own.append(7, 4, ["d"])
    assert not own.append(7, 3, ["c"])
    assert not own.append(8, 4, ["e"])
    assert [] == own.after((7, 2), 10)
    assert [(4, "e")] == own.after((8, 3), 10)


def test_it_is_bounded_in_number_and_size() -> None:
    """The newest stay."""
    many, large = Remembered(), Remembered()
    for number in range(1, 1001):
        many.append(1, number, ["x"])
        large.append(1, number, ["x" * 100_000])

    kept = many.after((1, 999 - 100), 1000)
    assert (900, "x") == kept[0]
    assert [] == many.after((1, 1000 - 300), 1000)
    assert [] == large.after((1, 1000 - 20), 1000)
    assert 1 == len(large.after((1, 999), 1000))
