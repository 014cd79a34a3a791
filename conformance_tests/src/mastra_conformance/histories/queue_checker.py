"""Was every event of a group settled, and delivered again only for a reason?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ("Handled", "check_queue")


@dataclass(frozen=True, slots=True)
class Handled:
    """One delivery to some member of the group."""

    event: int
    attempt: int


def check_queue(
    published: Iterable[int], handled: Sequence[Handled], acked: Iterable[int]
) -> list[str]:
    """
    The faults of a history, one sentence each; none if it keeps the promises.

    Args:
        published: Every event whose publish returned normally.
        handled: Every delivery, in the order in which they began.
        acked: Every event whose ack returned; once settled it must not come again.
    """
    faults: list[str] = []
    attempts: dict[int, list[int]] = {}
    for delivery in handled:
        attempts.setdefault(delivery.event, []).append(delivery.attempt)
    wanted, done = set(published), list(acked)
    faults += [f"{event} was lost." for event in sorted(wanted - set(done))]
    faults += [f"{event} was never published." for event in sorted(set(attempts) - wanted)]
    faults += [
        f"{event} was acked {count} times."
        for event in sorted(set(done))
        if (count := done.count(event)) > 1
    ]
    for event, seen in sorted(attempts.items()):
        if seen[0] < 1:
            faults.append(f"{event} began with attempt {seen[0]}.")
        for earlier, later in pairwise(seen):
            if later <= 1:
                faults.append(f"{event} came again as attempt {later}.")
            elif later < earlier:
                faults.append(f"{event} went back from attempt {earlier} to {later}.")
    return faults
