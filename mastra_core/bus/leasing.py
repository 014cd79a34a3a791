"""What all lease providers have in common: opening, closing, and what one holds (6.4)."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.contracts.lease import (
    MAX_TTL_MS,
    MIN_TTL_MS,
    LeaseCapabilities,
    LeaseRecord,
)
from mastra_core.errors import PubSubClosedError

__all__ = (
    "EXPIRY_GRACE_S",
    "MAX_HELD",
    "Held",
    "HeldLeases",
    "LeaseBase",
    "check_ttl",
)

#: How long after its time an expiry is reported (L7).
EXPIRY_GRACE_S: Final = 0.02
#: From so many on, those that are over are looked for and forgotten.
MAX_HELD: Final = 10_000

P = TypeVar("P")


def check_ttl(ttl_ms: int) -> None:
    """
    Refuse a time to live before anything is touched (L1).

    Raises:
        ValueError: It isn't an integer in 50 … 86 400 000.
    """
    if type(ttl_ms) is not int or not MIN_TTL_MS <= ttl_ms <= MAX_TTL_MS:
        raise ValueError(f"ttl_ms is {ttl_ms!r}, not an integer in {MIN_TTL_MS} … {MAX_TTL_MS}.")


@dataclass(frozen=True, slots=True)
class Held:
    """What was acquired here."""

    owner: str
    fence: int
    #: When it is over, by the monotonic clock.
    until: float


class HeldLeases:
    """
    What one provider acquired and didn't let go, so that closing can (L12).

    Args:
        clock: Tells what is over.
        holder: Tells this incarnation from others that use the same owner (L3).
    """

    def __init__(self, clock: Clock, holder: str) -> None:
        self._clock = clock
        self._holder = holder
        self._held: dict[str, Held] = {}
        #: The holder that a key was acquired with here, if not this instance.
        self._holders: dict[tuple[str, str], str] = {}

    def __len__(self) -> int:
        return len(self._held)

    def fence_of(self, key: str) -> int | None:
        """The newest fence that was got here; None without one."""
        held = self._held.get(key)
        return held.fence if held else None

    def holder_of(self, key: str, owner: str, holder: str | None) -> str:
        """Who asks: the one that is named, the one that acquired here, or this instance."""
        return holder or self._holders.get((key, owner)) or self._holder

    def acquired_as(self, key: str, owner: str, holder: str) -> None:
        """Remember who acquired a key, for calls that don't say so."""
        if holder != self._holder:
            self._holders[key, owner] = holder

    def hold(self, key: str, owner: str, fence: int | None, until: float) -> bool:
        """Remember a term; True if it is another one than before."""
        is_new = self.fence_of(key) != fence
        if len(self._held) >= MAX_HELD:
            self._held = dict(self._live())
        self._held[key] = Held(owner, fence or 0, until)
        return is_new

    def forget(self, key: str, owner: str) -> None:
        """The owner let it go."""
        self._holders.pop((key, owner), None)
        held = self._held.get(key)
        if held is not None and held.owner == owner:
            del self._held[key]

    def take(self) -> list[tuple[str, Held]]:
        """What is still held; afterwards nothing is."""
        live = self._live()
        self._held.clear()
        self._holders.clear()
        return live

    def _live(self) -> list[tuple[str, Held]]:
        now = self._clock.monotonic()
        return [(key, held) for key, held in self._held.items() if held.until > now]


class LeaseBase(ABC, Generic[P]):
    """
    A lease provider that opens itself with the first call.

    Args:
        capabilities: How far it keeps others out.
        clock: Measures pauses; where there is a server it decides about no lease.
        ids: Makes the name of this instance.
    """

    def __init__(self, *, capabilities: LeaseCapabilities, clock: Clock, ids: Ids) -> None:
        self.lease_capabilities: LeaseCapabilities = capabilities
        self._clock = clock
        #: Tells this incarnation from others that use the same owner (L3).
        self._holder = ids.new("holder")
        #: The open database.
        self._place: P | None = None
        self._place_opened: AbstractAsyncContextManager[P] | None = None
        self._opening: asyncio.Lock | None = None
        self._is_closed = False
        self._closed = asyncio.Event()

    @abstractmethod
    def _open_place(self) -> AbstractAsyncContextManager[P]:
        """Open the database, and bring it up to date."""

    def _open_errors(self) -> AbstractContextManager[None]:
        """Turns what goes wrong while opening into errors of leases."""
        return nullcontext()

    @abstractmethod
    async def _release_all(self, place: P) -> None:
        """What is still ours is free at once; what can't be released expires by itself."""

    def _end_watches(self) -> None:
        """Wake those who wait for events; the provider is closed."""

    def _leave(self, place: P) -> None:
        """Hear no more of the database; it is about to be closed."""

    @abstractmethod
    async def get_lease(self, key: str) -> LeaseRecord | None:
        """The live lease; None if there is none."""

    async def get_lease_owner(self, key: str) -> str | None:
        """The live owner; None if there is none."""
        record = await self.get_lease(key)
        return record.owner if record else None

    # -- life ------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Release what this instance still holds and close; idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._closed.set()
        self._end_watches()
        place, self._place = self._place, None
        if place is None:
            return
        try:
            await self._release_all(place)
        finally:
            # Also when we are cancelled meanwhile.
            self._leave(place)
            opened, self._place_opened = self._place_opened, None
            if opened is not None:
                await opened.__aexit__(None, None, None)

    async def __aenter__(self) -> Self:
        await self._opened()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _opened(self) -> P:
        if self._is_closed:
            raise PubSubClosedError
        if self._place is not None:
            return self._place
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._place is None and not self._is_closed:
                opened = self._open_place()
                with self._open_errors():
                    self._place = await opened.__aenter__()
                self._place_opened = opened
        if self._place is None:
            raise PubSubClosedError
        return self._place
