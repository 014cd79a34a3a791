"""Did every reader of a topic see every event once, in an order that is promised?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ("Delivered", "Published", "check_log")


@dataclass(frozen=True, slots=True)
class Published:
    """A publish that succeeded: the n-th of its publisher."""

    publisher: int
    number: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a reader got."""

    publisher: int
    number: int


def check_log(
    published: Sequence[Published],
    delivered: Mapping[str, Sequence[Delivered]],
    *,
    ordering: Literal["none", "publisher", "topic"],
) -> list[str]:
    """
    The faults of a history, one sentence each; none if it keeps the promises.

    Args:
        published: Every publish that returned normally.
        delivered: What each reader got, in its order.
        ordering: What the transport promises (pubsub_and_lease.md 3.7).
    """
    faults: list[str] = []
    expected = Counter((event.publisher, event.number) for event in published)
    for reader, events in delivered.items():
        got = Counter((event.publisher, event.number) for event in events)
        faults += [f"{reader} never saw {event}." for event in sorted(expected - got)]
        faults += [f"{reader} saw {event} too often." for event in sorted(got - expected)]
        if ordering != "none":
            faults += _check_publishers(reader, events)
    if ordering == "topic":
        faults += _check_total_order(delivered)
    return faults


def _check_publishers(reader: str, events: Sequence[Delivered]) -> list[str]:
    last: dict[int, int] = {}
    faults = []
    for event in events:
        if event.number <= last.get(event.publisher, -1):
            faults.append(
                f"{reader} saw {event.number} of publisher {event.publisher} "
                f"after {last[event.publisher]}."
            )
        last[event.publisher] = max(event.number, last.get(event.publisher, -1))
    return faults


def _check_total_order(delivered: Mapping[str, Sequence[Delivered]]) -> list[str]:
    readers = list(delivered)
    faults = []
    for reader in readers[1:]:
        for place, (one, two) in enumerate(
            zip(delivered[readers[0]], delivered[reader], strict=False)
        ):
            if one != two:
                faults.append(f"{readers[0]} and {reader} disagree at place {place}: {one}, {two}.")
                break
    return faults
