"""The leases of the threads whose runs are in this process (signals.md 17.5)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from mastra_core.base.clock import Clock
from mastra_core.base.tasks import TaskSupervisor, shielded
from mastra_core.bus.held_lease import HeldLease
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.errors import FencedOutError, LeaseLostError, LeaseUnavailableError

__all__ = ("LEASE_TTL_MS", "LeaseKeeper", "run_id_from_owner")

logger = logging.getLogger(__name__)

#: How long a thread stays ours without renewal.
LEASE_TTL_MS: Final = 15_000
#: How often a provider that doesn't answer is asked, and the pause between (G2); and how often a
#: lease is taken that was lost before it could be used.
_ATTEMPTS: Final = 3
_PAUSE_SECONDS: Final = 0.2
_GIVE_BACK_SECONDS: Final = 2.0
#: So many runs of one term are remembered.
_REMEMBERED: Final = 100


def run_id_from_owner(owner: str | None) -> str | None:
    """
    The run that an owner of a lease stands for (signals.md 19.6).

    The bare run id stands for itself; a JSON form of other senders holds it first; of an opaque
    one nobody knows.
    """
    if owner is None or owner.startswith("mastra:agent-thread:"):
        return None
    prefix = "mastra-thread-owner:["
    if not owner.startswith(prefix):
        return owner
    first = owner[len(prefix) :].split(",", 1)[0].strip(" ]")
    is_text = len(first) > 1 and first[0] == first[-1] == '"'
    return first[1:-1] if is_text else None


@dataclass(slots=True)
class _Term:
    """What is held of one thread."""

    held: HeldLease | None = None
    #: What writes carry from its begin to its end, however often it is handed on here.
    fence: int | None = None
    #: The runs that it went through since nobody else had it, the last ones.
    runs: deque[str] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    watcher: asyncio.Task[None] | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Who changes it or waits to.
    users: int = 0


class LeaseKeeper:
    """
    Takes, hands on, keeps and lets go of the leases of threads.

    Args:
        provider: Where the leases live.
        holder: This process.
        clock: Measures the local deadline.
        ttl_ms: How long a thread stays ours without renewal.
        renew_ms: How often it is renewed; three times in that time if not given.
        on_lost: Told the thread and the run when a lease ended without being let go.
        raise_fence: Refuses what former owners still write; called before a lease is ours.
    """

    def __init__(
        self,
        provider: LeaseProvider,
        *,
        holder: str,
        clock: Clock,
        on_lost: Callable[[str, str, LeaseLostError], None],
        ttl_ms: int = LEASE_TTL_MS,
        renew_ms: int | None = None,
        raise_fence: Callable[[FenceToken], Awaitable[None]] | None = None,
    ) -> None:
        self.provider = provider
        self._raise_fence = raise_fence
        self.ttl_ms = ttl_ms
        self._renew_ms = renew_ms
        self._holder = holder
        self._clock = clock
        self._on_lost = on_lost
        self._terms: dict[str, _Term] = {}
        self._watchers = TaskSupervisor("thread leases")

    async def take(self, key: str, run_id: str, *, is_known: bool = False) -> str | None:
        """
        Own the thread for this run: at once, or from the run of this process that had it.

        Args:
            key: The thread.
            run_id: The run.
            is_known: Other processes may be about to start a run of this id, too. Then it isn't
                taken from one that has done so: the same owner would get it again and again.

        Returns:
            None if it is ours now, else the owner that has it.

        Raises:
            LeaseUnavailableError: The provider didn't answer three times.
            StorageError: Former owners can't be kept from writing.
        """
        async with self._changing(key) as term:
            held = term.held
            is_ours = held is not None and not held.is_lost
            if held is not None and is_ours and await self._handed_on(held, run_id):
                term.runs.append(run_id)
                return None
            await self._drop(term)
            lost = held if held is not None and held.is_lost else None
            if lost is not None and lost.owner != run_id:
                self._tell_lost(key, lost)
                lost = None
            begun: HeldLease | str = ""
            try:
                begun, is_first = await self._begin(
                    key, run_id, self._holder if is_known else run_id
                )
            finally:
                # A run that has its thread again has lost nothing.
                if lost is not None and isinstance(begun, str):
                    self._tell_lost(key, lost)
            if isinstance(begun, str):
                return begun
            term.held, term.fence = begun, begun.fence
            term.runs.clear()
            if is_first:
                term.runs.extend({self._holder, run_id} if is_known else {run_id})
            term.watcher = self._watchers.start(self._watch(key, begun), name=f"lease:{key}")
            return None

    async def _begin(self, key: str, run_id: str, first_owner: str) -> tuple[HeldLease | str, bool]:
        """
        A lease that nobody writes against any more, or the owner that has it; and whether the
        run had none before, in which others may have sent to it what somebody else answered.

        It is asked for under the name of the first owner, and is the run's when this returns.
        """
        attempt = 1
        while True:
            held = HeldLease(
                self.provider,
                key,
                first_owner,
                self.ttl_ms,
                holder=self._holder,
                clock=self._clock,
                renew_ms=self._renew_ms,
            )
            owner = await self._acquire(held)
            if owner is not None:
                return owner, True
            try:
                if first_owner != run_id and not await held.transfer(run_id):
                    raise LeaseLostError(key, owner=run_id)
                if self._raise_fence is not None and held.fence is not None:
                    await self._raise_fence((key, held.fence))
            except (FencedOutError, LeaseLostError):
                # It was lost, and somebody else's already, before it could be used.
                await held.release()
                if attempt == _ATTEMPTS:
                    raise
            except BaseException:
                await shielded(held.release(), _GIVE_BACK_SECONDS)
                raise
            else:
                return held, attempt == 1
            attempt += 1

    @asynccontextmanager
    async def _changing(self, key: str) -> AsyncIterator[_Term]:
        """One after the other; a thread that nobody holds or changes is forgotten."""
        term = self._terms.setdefault(key, _Term())
        term.users += 1
        try:
            async with term.lock:
                yield term
        finally:
            term.users -= 1
            if not term.users and term.held is None:
                del self._terms[key]

    async def _handed_on(self, held: HeldLease, run_id: str) -> bool:
        try:
            if held.owner == run_id:
                # It may have waited here while another process answered it, which has it by now.
                return await held.confirm()
            return bool(await held.transfer(run_id))
        except LeaseUnavailableError:
            logger.warning("lease not handed on", exc_info=True, extra={"key": held.key})
            return False

    async def _acquire(self, held: HeldLease) -> str | None:
        attempt = 1
        while True:
            try:
                grant = await held.acquire()
            except LeaseUnavailableError:
                if attempt == _ATTEMPTS:
                    raise
            except asyncio.CancelledError:
                # It may have been granted: nobody would renew it, but all would wait for its end.
                await shielded(self._give_back(held), _GIVE_BACK_SECONDS)
                raise
            else:
                return None if grant.acquired else (grant.owner or "")
            attempt += 1
            await self._clock.sleep(_PAUSE_SECONDS)

    async def _give_back(self, held: HeldLease) -> None:
        with suppress(LeaseUnavailableError):
            await self.provider.release_lease(held.key, held.owner, holder=self._holder)

    async def _watch(self, key: str, held: HeldLease) -> None:
        await held.lost()
        async with self._changing(key) as term:
            if term.held is held:
                term.held = None
        self._tell_lost(key, held)

    def _tell_lost(self, key: str, held: HeldLease) -> None:
        message = f"The run {held.owner!r} has lost its thread to another process."
        self._on_lost(key, held.owner, LeaseLostError(key, owner=held.owner, message=message))

    def held(self, key: str) -> HeldLease | None:
        """The lease of a thread that is ours; None if it isn't."""
        term = self._terms.get(key)
        return None if term is None or term.held is None or term.held.is_lost else term.held

    def fence(self, key: str) -> FenceToken | None:
        """
        What writes to a thread of ours carry; None if its terms have no numbers.

        For one that isn't ours it is what every store refuses that ever knew an owner.
        """
        term = self._terms.get(key)
        if term is None or self.held(key) is None:
            return key, 0
        return None if term.fence is None else (key, term.fence)

    def had(self, key: str, run_id: str) -> bool:
        """Has this run had the thread since nobody else did?"""
        term = self._terms.get(key)
        return self.held(key) is not None and term is not None and run_id in term.runs

    async def let_go(self, key: str, run_id: str) -> None:
        """Nothing waits for this thread any more; nothing happens if another run has it by now."""
        if key not in self._terms:
            return
        async with self._changing(key) as term:
            if term.held is not None and term.held.owner == run_id:
                await self._drop(term)

    async def _drop(self, term: _Term) -> None:
        held, term.held = term.held, None
        watcher, term.watcher = term.watcher, None
        if watcher is not None:
            watcher.cancel()
        if held is not None:
            await held.release()

    async def owner(self, key: str) -> str | None:
        """
        Who has the thread, in whichever process.

        Raises:
            LeaseUnavailableError: The provider didn't answer.
        """
        return await self.provider.get_lease_owner(key)

    def __len__(self) -> int:
        """How many threads are held here, or about to be."""
        return len(self._terms)

    async def aclose(self) -> None:
        """Let everything go."""
        await self._watchers.close()
        for key in list(self._terms):
            async with self._changing(key) as term:
                await self._drop(term)
