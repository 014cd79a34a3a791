"""The leases of one hub: who owns a key, until when, and with which fence (6.4).

Nothing here waits, so every operation is one atomic step of the event loop.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal
from weakref import WeakSet

from mastra_core.base.clock import Clock
from mastra_core.bus.lease_watching import Watcher
from mastra_core.contracts.lease import LeaseEvent, LeaseGrant, LeaseRecord

__all__ = (
    "Kind",
    "LeaseTable",
    "Term",
)

Kind = Literal["acquired", "renewed", "transferred", "released", "expired"]

_MAX_REMEMBERED = 100_000


@dataclass(slots=True)
class Term:
    """One uninterrupted ownership of a key by one (owner, holder)."""

    owner: str
    holder: str | None
    fence: int
    #: By the monotonic clock, so that a jump of the wall clock changes nothing.
    expires_at: float


class LeaseTable:
    """Rules L3-L6 and L13 for all providers of a hub."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._terms: dict[str, Term] = {}
        #: The newest fence of each key; the oldest keys may be forgotten, since no fence
        #: is ever below one that was issued before.
        self._fences: OrderedDict[str, int] = OrderedDict()
        self._last_fence = 0
        #: Weak, so that a watch that nobody reads any more is forgotten.
        self._watchers: dict[str, WeakSet[Watcher]] = {}

    def __len__(self) -> int:
        return len(self._terms)

    def live(self, key: str) -> Term | None:
        """The term that holds now."""
        term = self._terms.get(key)
        if term is None or term.expires_at <= self._clock.monotonic():
            return None
        return term

    def record(self, key: str) -> LeaseRecord | None:
        """The live term as everybody may see it."""
        term = self.live(key)
        if term is None:
            return None
        return LeaseRecord(
            owner=term.owner,
            holder=term.holder,
            fence=term.fence,
            ttl_remaining_ms=self._left_ms(term),
        )

    def acquire(
        self, key: str, owner: str, ttl_ms: int, holder: str | None, *, lock_delay_ms: int = 0
    ) -> LeaseGrant:
        """Grant a free, expired or own key; the same (owner, holder) goes on with its term."""
        now = self._clock.monotonic()
        term = self._terms.get(key)
        if term is not None and term.expires_at > now:
            if term.owner != owner:
                return LeaseGrant(
                    acquired=False,
                    owner=term.owner,
                    fence=term.fence,
                    ttl_remaining_ms=self._left_ms(term),
                )
            if holder is None or term.holder is None or holder == term.holder:
                # A term without a holder was handed over; the first who comes takes it up.
                term.holder = term.holder or holder
                term.expires_at = now + ttl_ms / 1000
                self._tell("renewed", key, term)
                return self._granted(term)
        elif term is not None and term.owner != owner and lock_delay_ms:
            # It expired instead of being released: its holder may not know yet (L13).
            left = term.expires_at + lock_delay_ms / 1000 - now
            if left > 0:
                return LeaseGrant(acquired=False, owner=None, ttl_remaining_ms=int(left * 1000))
        if term is not None and term.expires_at <= now:
            self._tell("expired", key, term)
        if len(self._terms) >= _MAX_REMEMBERED:
            self._forget_expired(now)
        term = self._terms[key] = Term(owner, holder, self._next_fence(key), now + ttl_ms / 1000)
        self._tell("acquired", key, term)
        return self._granted(term)

    def renew(
        self, key: str, owner: str, ttl_ms: int, fence: int | None, holder: str | None
    ) -> bool:
        """Set the remaining time of the caller's live term."""
        term = self._own(key, owner, fence, holder)
        if term is None:
            return False
        term.expires_at = self._clock.monotonic() + ttl_ms / 1000
        self._tell("renewed", key, term)
        return True

    def release(self, key: str, owner: str, fence: int | None, holder: str | None) -> bool:
        """End the caller's live term."""
        term = self._own(key, owner, fence, holder)
        if term is None:
            return False
        del self._terms[key]
        self._tell("released", key, term)
        return True

    def transfer(
        self,
        key: str,
        from_owner: str,
        to_owner: str,
        ttl_ms: int,
        *,
        fence: int | None,
        holder: str | None,
        to_holder: str | None,
    ) -> LeaseGrant:
        """Hand the caller's live term on; to oneself it is a renewal."""
        term = self._own(key, from_owner, fence, holder)
        if term is None:
            current = self.live(key)
            return LeaseGrant(
                acquired=False,
                owner=current.owner if current else None,
                fence=current.fence if current else None,
            )
        expires_at = self._clock.monotonic() + ttl_ms / 1000
        if (to_owner, to_holder) in {(from_owner, term.holder), (from_owner, None)}:
            term.expires_at = expires_at
            self._tell("renewed", key, term)
            return self._granted(term)
        term = self._terms[key] = Term(to_owner, to_holder, self._next_fence(key), expires_at)
        self._tell("transferred", key, term)
        return self._granted(term)

    def newest_fence(self, key: str) -> int:
        """The newest fence that was issued or seen for the key; 0 without one."""
        return self._fences.get(key, 0)

    def see_fence(self, key: str, fence: int) -> None:
        """A guarded write carried this fence."""
        self._fences[key] = max(fence, self._fences.get(key, 0))
        self._fences.move_to_end(key)
        if len(self._fences) > _MAX_REMEMBERED:
            self._fences.popitem(last=False)

    def watch(self, key: str) -> Watcher:
        """Follow a key from now on."""
        watcher = Watcher(key)
        self._watchers.setdefault(key, WeakSet()).add(watcher)
        return watcher

    def unwatch(self, watcher: Watcher) -> None:
        """Follow it no more."""
        watchers = self._watchers.get(watcher.key)
        if watchers is not None:
            watchers.discard(watcher)
            if not watchers:
                del self._watchers[watcher.key]

    def _own(self, key: str, owner: str, fence: int | None, holder: str | None) -> Term | None:
        term = self.live(key)
        if term is None or term.owner != owner:
            return None
        if holder is not None and term.holder is not None and holder != term.holder:
            return None
        if fence is not None and fence != term.fence:
            return None
        return term

    def _next_fence(self, key: str) -> int:
        """L4: above all that were issued, and above those of a former life of this hub."""
        now_us = self._clock.now_ms() * 1000
        fence = max(self._last_fence + 1, self._fences.get(key, 0) + 1, now_us)
        self._last_fence = fence
        self.see_fence(key, fence)
        return fence

    def _granted(self, term: Term) -> LeaseGrant:
        left_ms = self._left_ms(term)
        return LeaseGrant(
            acquired=True,
            owner=term.owner,
            fence=term.fence,
            ttl_remaining_ms=left_ms,
            expires_at_server=self._clock.now_ms() + left_ms,
        )

    def _left_ms(self, term: Term) -> int:
        return max(0, round((term.expires_at - self._clock.monotonic()) * 1000))

    def _forget_expired(self, now: float) -> None:
        for key in [key for key, term in self._terms.items() if term.expires_at <= now]:
            del self._terms[key]

    def _tell(self, kind: Kind, key: str, term: Term) -> None:
        watchers = self._watchers.get(key)
        if watchers is not None:
            event = LeaseEvent(kind=kind, key=key, owner=term.owner, fence=term.fence)
            for watcher in watchers:
                watcher.tell(event)
