"""Leases in Redis (pubsub_and_lease.md 6.4, 9.3): keys of the TypeScript system, with fences.

Everything is decided by scripts, by the server's clock. What a TypeScript peer does to a key is
seen by the next script: it knows who owned the key when we last touched it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, Final

from mastra_core.base import jsonjs
from mastra_core.bus.lease_watching import Watcher
from mastra_core.bus.leasing import EXPIRY_GRACE_S, MAX_HELD, LeaseBase, check_ttl
from mastra_core.bus.timers import first_of
from mastra_core.contracts.lease import LeaseEvent, LeaseGrant, LeaseRecord
from mastra_core.errors import MastraError, PubSubClosedError
from mastra_core.plugins.context import AdapterContext
from mastra_redis.capabilities import LEASE_CAPABILITIES
from mastra_redis.errors import lease_errors
from mastra_redis.keys import fence_key, raw, text
from mastra_redis.link import Argument, look_at
from mastra_redis.pool import Server, open_server, place_of_url
from mastra_redis.scripts import script_named
from mastra_redis.settings import RedisLeaseSettings

__all__ = ("RedisLease",)

logger = logging.getLogger(__name__)

#: Fences outlive their leases by this (L4).
_FENCE_KEPT_MS: Final = 7 * 24 * 3_600_000
#: How long closing waits for a server that doesn't answer.
_CLOSE_S: Final = 5.0
#: How long a grant waits for replicas at most.
_REPLICAS_MS: Final = 1_000


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Watcher(Watcher):
    """The events of one key that somebody follows."""

    #: What the server said when the watch began.
    first: asyncio.Future[Any] | None = None


class RedisLease(LeaseBase[Server]):
    """
    A lease provider; implements ``contracts.lease.LeaseProvider``. Opens with the first call.

    Example::

        async with RedisLease("redis://localhost:6379/0") as lease:
            grant = await lease.acquire_lease("thread", "run-1", 15_000)

    Args:
        settings: URL and options, or just the URL.
        context: Clock, ids, and what storage, pubsub and lease of one URL share.
        options: Settings by name, for those who give just the URL.
    """

    def __init__(
        self,
        settings: RedisLeaseSettings | str,
        context: AdapterContext | None = None,
        **options: Any,
    ) -> None:
        if isinstance(settings, str):
            settings = RedisLeaseSettings(url=settings, **options)
        context = context or AdapterContext()
        _ = settings.driver_url  # refuses a URL that is none of ours
        super().__init__(capabilities=LEASE_CAPABILITIES, clock=context.clock, ids=context.ids)
        self.settings: RedisLeaseSettings = settings
        self._context = context
        self._where = place_of_url(settings.url)
        namespace = f"{context.namespace}:" if context.namespace else ""
        self._prefix = raw(namespace + settings.key_prefix)
        self._channel = self._prefix + b":lease-events"
        #: What was acquired here and not let go: key to (owner, holder, fence).
        self._held: dict[str, tuple[str, str, int | None]] = {}
        self._watchers: set[_Watcher] = set()

    # -- the contract --------------------------------------------------------------------------

    async def acquire_lease(
        self, key: str, owner: str, ttl_ms: int, *, holder: str | None = None
    ) -> LeaseGrant:
        """Take the key if it is free, expired or already ours."""
        check_ttl(ttl_ms)
        own_holder = holder or self._holder
        answer = await self._run(
            "acquire_lease",
            "lease_acquire",
            key,
            ["acquire", *self._common(key)],
            [raw(owner), raw(own_holder), ttl_ms, self.settings.lock_delay_ms],
        )
        grant = _grant(answer)
        if grant.acquired and not await self._is_replicated(ttl_ms):
            await self._change("release", key, owner, holder=own_holder)
            return LeaseGrant(acquired=False, owner=None)
        if grant.acquired:
            self._hold(key, owner, own_holder, grant.fence)
        return grant

    async def renew_lease(
        self,
        key: str,
        owner: str,
        ttl_ms: int,
        *,
        fence: int | None = None,
        holder: str | None = None,
    ) -> bool:
        """Set the remaining time if it is live and ours; never revives."""
        check_ttl(ttl_ms)
        answer = await self._change("renew", key, owner, holder=holder, fence=fence, ttl_ms=ttl_ms)
        return bool(answer[0])

    async def release_lease(
        self, key: str, owner: str, *, fence: int | None = None, holder: str | None = None
    ) -> bool:
        """Let the key go; False, and nothing changes, if ``owner`` doesn't hold it."""
        answer = await self._change("release", key, owner, holder=holder, fence=fence)
        if answer[0]:
            self._forget(key, owner)
        return bool(answer[0])

    async def transfer_lease(
        self,
        key: str,
        from_owner: str,
        to_owner: str,
        ttl_ms: int,
        *,
        fence: int | None = None,
        holder: str | None = None,
        to_holder: str | None = None,
    ) -> LeaseGrant:
        """Hand the key on in one step, without an instant in which it is free."""
        check_ttl(ttl_ms)
        answer = await self._change(
            "transfer",
            key,
            from_owner,
            holder=holder,
            fence=fence,
            ttl_ms=ttl_ms,
            heir=(to_owner, to_holder or ""),
        )
        grant = _grant(answer)
        if grant.acquired:
            if to_owner != from_owner:
                self._forget(key, from_owner)
            if to_holder == self._holder:
                self._hold(key, to_owner, self._holder, grant.fence)
        return grant

    async def get_lease(self, key: str) -> LeaseRecord | None:
        """The live lease; None if there is none."""
        await self._opened()
        return _record(await self._run("get_lease", "lease_get", key, (), (), repeatable=True))

    async def check_lease(self, key: str, owner: str, fence: int) -> bool:
        """Is this term still the current one, by the server's judgement?"""
        answer = await self._change("check", key, owner, holder="", fence=fence)
        return bool(answer[0])

    def watch_lease(self, key: str) -> AsyncIterator[LeaseEvent]:
        """Follow a key; stale by at most ``watch_poll_ms``."""
        if self._is_closed:
            raise PubSubClosedError
        watcher = _Watcher(key)
        if self._place is not None:
            # Followed from now on, not only from the first read.
            self._follow_from_now(watcher, self._place)
        return self._follow(watcher)

    def open_resources(self) -> dict[str, int]:
        """What is open right now, by kind."""
        if self._place is None:
            return {"connections": 0, "waiting_calls": 0}
        return self._place.held()

    # -- life ----------------------------------------------------------------------------------

    def _open_place(self) -> AbstractAsyncContextManager[Server]:
        settings = self.settings
        return self._context.share(settings.connection_key(), lambda: open_server(settings))

    def _open_errors(self) -> AbstractContextManager[None]:
        return lease_errors("open", self._where)

    def _leave(self, place: Server) -> None:
        place.link.stop_listening(self._channel, self._heard)
        self._held.clear()

    def _common(self, key: str) -> list[Argument]:
        return [self._channel, jsonjs.encode_bytes(key), _FENCE_KEPT_MS]

    def _keys(self, key: str) -> list[bytes]:
        lease = self._prefix + b":lease:" + raw(key)
        return [lease, fence_key(lease)]

    async def _run(
        self,
        operation: str,
        script: str,
        key: str,
        common: list[Argument] | tuple[()],
        args: list[Argument] | tuple[()],
        *,
        repeatable: bool = False,
    ) -> Any:
        server = await self._opened()
        with lease_errors(operation, self._where):
            return await server.scripts.run(
                script, self._keys(key), [*common, *args], repeatable=repeatable
            )

    async def _change(
        self,
        operation: str,
        key: str,
        owner: str,
        *,
        holder: str | None = None,
        fence: int | None = None,
        ttl_ms: int = 0,
        heir: tuple[str, str] = ("", ""),
    ) -> Any:
        own = self._holder_of(key, owner) if holder is None else holder
        return await self._run(
            f"{operation}_lease",
            "lease_change",
            key,
            [operation, *self._common(key)],
            [
                *(raw(owner), raw(own), "" if fence is None else fence, ttl_ms),
                *(raw(heir[0]), raw(heir[1])),
            ],
        )

    def _holder_of(self, key: str, owner: str) -> str:
        """The incarnation that acquired here; nobody's, if a peer handed the key to the owner."""
        held = self._held.get(key)
        return held[1] if held is not None and held[0] == owner else ""

    async def _is_replicated(self, ttl_ms: int) -> bool:
        wanted = self.settings.wait_replicas
        if not wanted or self._place is None:
            return True
        with lease_errors("acquire_lease", self._where):
            wait_ms = max(1, min(_REPLICAS_MS, ttl_ms // 3))
            confirmed = await self._place.link.call("WAIT", wanted, wait_ms)
        return int(confirmed) >= wanted

    def _hold(self, key: str, owner: str, holder: str, fence: int | None) -> None:
        self._held.pop(key, None)
        self._held[key] = (owner, holder, fence)
        if len(self._held) > MAX_HELD:
            del self._held[next(iter(self._held))]

    def _forget(self, key: str, owner: str) -> None:
        held = self._held.get(key)
        if held is not None and held[0] == owner:
            del self._held[key]

    async def _release_all(self, place: Server) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._release_each(place)

    async def _release_each(self, place: Server) -> None:
        script = script_named("lease_change")
        replies = [
            place.link.send(
                ("EVALSHA", script.sha, 2, *self._keys(key), *self._release_words(key, held))
            )
            for key, held in self._held.items()
        ]
        failed = [
            result
            for result in await asyncio.gather(*replies, return_exceptions=True)
            if isinstance(result, Exception)
        ]
        if failed:
            logger.warning(
                "leases not released, they expire by themselves",
                extra={"leases": len(failed)},
                exc_info=failed[0],
            )

    def _release_words(self, key: str, held: tuple[str, str, int | None]) -> list[Argument]:
        """What ``lease_change`` wants to know to release a key."""
        owner, holder, fence = held
        known: Argument = "" if fence is None else fence
        return ["release", *self._common(key), raw(owner), raw(holder), known, 0, "", ""]

    # -- watching ------------------------------------------------------------------------------

    def _follow_from_now(self, watcher: _Watcher, server: Server) -> None:
        if not self._watchers:
            server.link.listen(self._channel, self._heard)
        self._watchers.add(watcher)
        script = script_named("lease_get")
        watcher.first = server.link.send(
            ("EVALSHA", script.sha, 2, *self._keys(watcher.key)), repeatable=True
        )
        watcher.first.add_done_callback(look_at)

    def _heard(self, message: bytes) -> None:
        """A notice of the server; anything else on the channel is passed over."""
        try:
            told = jsonjs.decode(message)
            event = LeaseEvent(
                kind=told["event"], key=told["key"], owner=told["owner"], fence=told["fence"]
            )
        except (MastraError, KeyError, TypeError):
            return
        for watcher in tuple(self._watchers):
            if watcher.key == event.key:
                watcher.tell(event)

    async def _follow(self, watcher: _Watcher) -> AsyncIterator[LeaseEvent]:
        server = await self._opened()
        if watcher not in self._watchers:
            self._follow_from_now(watcher, server)
        try:
            known = await self._first_look(watcher)
            reported = 0  # the fence of the term whose expiry was told already
            while True:
                if watcher.events:
                    event = watcher.events.popleft()
                    if event.kind != "expired" or event.fence != reported:
                        yield event
                    known = await self._look(watcher.key) if not watcher.events else known
                    continue
                await self._wait(watcher, known)
                if watcher.events:
                    continue
                current = await self._look(watcher.key)
                if watcher.events:
                    continue
                missed = _what_happened(watcher.key, known, current)
                if missed is not None:
                    if missed.kind == "expired":
                        reported = missed.fence or 0
                    yield missed
                known = current
        finally:
            self._watchers.discard(watcher)
            if not self._watchers and self._place is not None:
                self._place.link.stop_listening(self._channel, self._heard)

    async def _first_look(self, watcher: _Watcher) -> LeaseRecord | None:
        if watcher.first is None:
            return await self._look(watcher.key)
        try:
            with lease_errors("watch_lease", self._where):
                return _record(await watcher.first)
        except MastraError:
            return await self._look(watcher.key)

    async def _look(self, key: str) -> LeaseRecord | None:
        return await self.get_lease(key)

    async def _wait(self, watcher: _Watcher, known: LeaseRecord | None) -> None:
        """Until something happens, the known lease must have expired, or it is time to look."""
        watcher.arrived.clear()
        longest_s = self.settings.watch_poll_ms / 1000
        if known is not None:
            longest_s = min(longest_s, known.ttl_remaining_ms / 1000 + EXPIRY_GRACE_S)
        await first_of(watcher.arrived.wait(), self._closed.wait(), self._clock.sleep(longest_s))
        if self._is_closed:
            raise PubSubClosedError


def _what_happened(
    key: str, known: LeaseRecord | None, current: LeaseRecord | None
) -> LeaseEvent | None:
    """What nobody told, because a TypeScript peer did it, a notice was lost, or time was up."""
    if current is None:
        if known is None:
            return None
        return LeaseEvent(kind="expired", key=key, owner=known.owner, fence=known.fence)
    if known is None or (known.owner, known.fence) != (current.owner, current.fence):
        return LeaseEvent(kind="acquired", key=key, owner=current.owner, fence=current.fence)
    return None


def _grant(answer: Any) -> LeaseGrant:
    acquired = bool(answer[0])
    fence = int(answer[2]) if answer[2] else None
    remaining = max(0, int(answer[3]))
    return LeaseGrant(
        acquired=acquired,
        owner=text(answer[1]) if answer[1] else None,
        fence=fence,
        ttl_remaining_ms=remaining,
        expires_at_server=int(answer[4]) if acquired and answer[4] else None,
    )


def _record(answer: Any) -> LeaseRecord | None:
    if answer is None:
        return None
    owner, holder, fence, remaining = answer
    return LeaseRecord(
        owner=text(owner),
        holder=text(holder) if holder else None,
        fence=int(fence),
        ttl_remaining_ms=max(0, int(remaining)),
    )
