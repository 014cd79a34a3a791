"""What happened to a key, told from how its row looked before and looks now (L7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from mastra_core.contracts.lease import LeaseEvent
from mastra_sql.executor import Rows

__all__ = ("NOTHING", "Sight", "events_between", "sight_of")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """How a key looked at one moment."""

    owner: str | None
    holder: str | None
    fence: int
    origin: Literal["acquired", "transferred"]
    left_ms: int
    lives: bool


NOTHING = Sight(owner=None, holder=None, fence=0, origin="acquired", left_ms=0, lives=False)
"""A key that nobody ever had."""


def sight_of(rows: Rows) -> Sight:
    """The answer to ``LeaseStatements.look``."""
    if not rows:
        return NOTHING
    owner, holder, fence, origin, left_ms, lives = rows[0]
    return Sight(
        owner=owner,
        holder=holder,
        fence=int(fence),
        origin=origin,
        left_ms=max(0, int(left_ms)),
        lives=bool(lives),
    )


def events_between(key: str, before: Sight, now: Sight, *, is_over: bool) -> Iterator[LeaseEvent]:
    """
    What must have happened; terms that came and went between two looks aren't told.

    Args:
        key: For the events.
        before: The last look.
        now: This look.
        is_over: Whether the time of the term that was seen before has passed.
    """

    def event(kind: Any, owner: str | None, fence: int) -> LeaseEvent:
        return LeaseEvent(kind=kind, key=key, owner=owner, fence=fence)

    def end(sight: Sight, *, released: bool) -> LeaseEvent:
        return event("released" if released else "expired", sight.owner, sight.fence)

    if now.fence <= before.fence:
        if before.lives and not now.lives:
            yield end(before, released=now.owner is None)
        return
    was_handed_on = now.origin == "transferred" or now.owner == before.owner
    if before.lives and not was_handed_on:
        yield end(before, released=not is_over)
    if now.owner is None:
        # A whole term was missed; that it ended is what a waiter wants to know.
        yield event("released", None, now.fence)
        return
    yield event(now.origin, now.owner, now.fence)
    if not now.lives:
        yield end(now, released=False)
