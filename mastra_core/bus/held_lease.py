"""A lease that is kept as long as the work lasts (pubsub_and_lease.md 6.4, L8 and L10)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

from mastra_core.base.clock import Clock, SystemClock
from mastra_core.bus.timers import within
from mastra_core.contracts.lease import LeaseGrant, LeaseProvider
from mastra_core.errors import LeaseConflictError, LeaseLostError, PubSubClosedError

__all__ = (
    "HeldLease",
    "OnError",
    "held_lease",
)

logger = logging.getLogger(__name__)

#: The clocks of two machines may differ by so much in their rate, and so much is left over.
_RATE: Final = 0.98
_MARGIN_S: Final = 0.020
_RENEWALS_PER_TTL: Final = 3
_RETRIES_PER_TTL: Final = 10
_RELEASE_S: Final = 2.0

OnError = Literal["open", "closed"]


class HeldLease:
    """
    One term of ownership that renews itself.

    Whether it is still ours is answered from a local deadline, which passes before
    anybody else can get the key, even if the provider can't be reached.

    Args:
        provider: Where the lease lives.
        key: What to own.
        owner: Who owns it, usually a run id.
        ttl_ms: How long the key stays ours without renewal.
        holder: This incarnation of the owner.
        clock: Measures the deadline.
        renew_ms: How often it is renewed; a third of the time if not given.
        on_error: What a failing provider means when acquiring: ``closed`` raises;
            ``open`` goes on without a fence and keeps trying.
    """

    def __init__(
        self,
        provider: LeaseProvider,
        key: str,
        owner: str,
        ttl_ms: int,
        *,
        holder: str | None = None,
        clock: Clock | None = None,
        renew_ms: int | None = None,
        on_error: OnError = "closed",
    ) -> None:
        self.key = key
        self.owner = owner
        #: Grows with every change of owner; None without fencing or after failing open.
        self.fence: int | None = None
        self._provider = provider
        self._ttl_ms = ttl_ms
        self._renew_ms = ttl_ms / _RENEWALS_PER_TTL if renew_ms is None else renew_ms
        self._holder = holder
        self._clock = clock or SystemClock()
        self._on_error = on_error
        self._deadline = 0.0
        self._current: str | None = None
        self._is_confirmed = False
        self._lost = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        #: A renewal and a transfer never overlap: one names the owner that the other changes.
        self._asking = asyncio.Lock()

    @property
    def is_lost(self) -> bool:
        """Whether it ended without being released; once it has, it never comes back."""
        self._look_at_deadline()
        return self._lost.is_set()

    async def lost(self) -> None:
        """Wait until it is lost."""
        await self._lost.wait()

    def remaining(self) -> int:
        """Milliseconds until the local deadline; 0 when it has passed or nothing is held."""
        self._look_at_deadline()
        if self._lost.is_set():
            return 0
        return max(0, int((self._deadline - self._clock.monotonic()) * 1000))

    def assert_owned(self) -> None:
        """
        Go on only as the owner.

        Raises:
            LeaseLostError: The deadline has passed or somebody else has the key.
        """
        self._look_at_deadline()
        if self._lost.is_set() or self._clock.monotonic() >= self._deadline:
            raise LeaseLostError(self.key, owner=self.owner, current=self._current)

    async def acquire(self) -> LeaseGrant:
        """
        Ask once; if granted, keep it until ``release``.

        Raises:
            LeaseUnavailableError: The provider failed and ``on_error`` is ``closed``.
        """
        started = self._clock.monotonic()
        try:
            grant = await self._provider.acquire_lease(
                self.key, self.owner, self._ttl_ms, holder=self._holder
            )
        except (ValueError, PubSubClosedError):
            raise
        except Exception as exc:
            if self._on_error == "closed":
                raise
            logger.warning(
                "lease provider failed, going on without",
                extra={"key": self.key, "owner": self.owner},
                exc_info=exc,
            )
            grant = LeaseGrant(acquired=True, owner=self.owner)
            self._begin(started, grant, is_confirmed=False)
            return grant
        if grant.acquired:
            self._begin(started, grant, is_confirmed=True)
        else:
            self._current = grant.owner
        return grant

    async def transfer(self, owner: str) -> LeaseGrant:
        """
        Hand the key on to another owner here, without an instant in which it is free.

        What was granted goes on renewing itself under the new owner; refused, it is lost.

        Raises:
            LeaseUnavailableError: The provider failed; nobody knows whose it is, and it stays
                ours until the deadline.
        """
        async with self._asking:
            started = self._clock.monotonic()
            grant = await self._provider.transfer_lease(
                self.key,
                self.owner,
                owner,
                self._ttl_ms,
                fence=self.fence,
                holder=self._holder,
                to_holder=self._holder,
            )
            if grant.acquired:
                self.owner = owner
                self.fence = grant.fence
                self._current = owner
                self._is_confirmed = True
                self._extend_deadline(started)
            else:
                self._current = grant.owner
                self._lose("it could not be handed on")
            return grant

    async def confirm(self) -> bool:
        """
        Ask the provider whether it is still ours, for another time; if not, it is lost.

        Raises:
            LeaseUnavailableError: The provider failed; it stays ours until the deadline.
        """
        started = self._clock.monotonic()
        is_ours = not self.is_lost and await self._renew()
        if self._lost.is_set():
            return False
        if is_ours:
            self._extend_deadline(started)
        else:
            self._lose("somebody else has it")
        return is_ours

    async def release(self) -> None:
        """Stop renewing and let the key go; harmless if it is lost or was never held."""
        keeping, self._keeping = self._keeping, None
        if keeping is None:
            return
        keeping.cancel()
        await asyncio.wait([keeping])
        if self._lost.is_set():
            return
        self._deadline = 0.0
        releasing = asyncio.get_running_loop().create_task(
            within(self._clock, self._release(), _RELEASE_S), name="lease-release"
        )
        try:
            await asyncio.shield(releasing)
        except asyncio.CancelledError:
            await asyncio.wait([releasing])
            raise

    def _begin(self, started: float, grant: LeaseGrant, *, is_confirmed: bool) -> None:
        self.fence = grant.fence
        self._current = grant.owner
        self._is_confirmed = is_confirmed
        self._lost.clear()
        self._extend_deadline(started)
        if self._keeping is None:
            self._keeping = asyncio.get_running_loop().create_task(
                self._keep(), name=f"lease:{self.key}"
            )

    def _extend_deadline(self, started: float) -> None:
        self._deadline = started + self._ttl_ms / 1000 * _RATE - _MARGIN_S

    async def _keep(self) -> None:
        """Renew until cancelled; an error is tried again until the deadline."""
        pause = self._renew_ms / 1000
        while True:
            await self._clock.sleep(min(pause, self._left()))
            self._look_at_deadline()
            if self._lost.is_set():
                return
            started = self._clock.monotonic()
            answer = await self._try_renewal()
            if self._lost.is_set():
                # Somebody was told so while the answer was on its way.
                return
            if answer is False:
                self._lose("somebody else has it")
                return
            if answer is None:
                pause = self._ttl_ms / 1000 / _RETRIES_PER_TTL
            else:
                pause = self._renew_ms / 1000
                self._extend_deadline(started)

    async def _try_renewal(self) -> bool | None:
        """True if it is ours for another time, False if not; None if nobody knows."""
        answers: list[bool] = []

        async def ask() -> None:
            answers.append(await self._renew())

        try:
            await within(self._clock, ask(), self._left())
        except PubSubClosedError:
            return False
        except Exception as exc:  # L8: tried again until the deadline
            logger.warning("lease not renewed", extra={"key": self.key}, exc_info=exc)
        return answers[0] if answers else None

    async def _renew(self) -> bool:
        async with self._asking:
            return await self._ask_for_more()

    async def _ask_for_more(self) -> bool:
        if self._is_confirmed:
            return await self._provider.renew_lease(
                self.key, self.owner, self._ttl_ms, fence=self.fence, holder=self._holder
            )
        grant = await self._provider.acquire_lease(
            self.key, self.owner, self._ttl_ms, holder=self._holder
        )
        self._current = grant.owner
        if grant.acquired:
            self.fence = grant.fence
            self._is_confirmed = True
        return grant.acquired

    async def _release(self) -> None:
        try:
            await self._provider.release_lease(
                self.key, self.owner, fence=self.fence, holder=self._holder
            )
        except Exception as exc:  # it expires by itself
            logger.warning("lease not released", extra={"key": self.key}, exc_info=exc)

    def _left(self) -> float:
        return self._deadline - self._clock.monotonic()

    def _look_at_deadline(self) -> None:
        """
        Who learns that the deadline has passed acts on it: a late renewal changes nothing then.
        """
        if self._keeping is not None and not self._lost.is_set() and self._left() <= 0:
            self._lose("its deadline passed")

    def _lose(self, why: str) -> None:
        logger.warning("lease lost", extra={"key": self.key, "owner": self.owner, "reason": why})
        if self._current == self.owner:
            self._current = None
        self._lost.set()


@asynccontextmanager
async def held_lease(
    provider: LeaseProvider, key: str, owner: str, ttl_ms: int, **options: Any
) -> AsyncIterator[HeldLease]:
    """
    Own the key within the block; see ``HeldLease`` for the options.

    Raises:
        LeaseConflictError: Somebody else has it.
        LeaseUnavailableError: The provider failed and ``on_error`` is ``closed``.
    """
    lease = HeldLease(provider, key, owner, ttl_ms, **options)
    grant = await lease.acquire()
    if not grant.acquired:
        raise LeaseConflictError(key, owner=owner, current=grant.owner)
    try:
        yield lease
    finally:
        await lease.release()
