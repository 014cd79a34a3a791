"""Bus, leases and store of the toy server; subclasses are wrong on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from mastra_core.base.ids import UuidIds
from mastra_core.bus import Ack, BusOptions, EventEngine, Outgoing, Page, Position
from mastra_core.bus.leasing import check_ttl
from mastra_core.contracts.lease import LeaseEvent, LeaseGrant, LeaseRecord
from mastra_core.errors import (
    LeaseUnavailableError,
    MastraError,
    PubSubClosedError,
    PubSubConnectionError,
    StorageConnectionError,
    StorageTimeoutError,
)
from mastra_core.inmemory.capabilities import MAX_EVENT_BYTES
from mastra_core.inmemory.capabilities import STORAGE_CAPABILITIES as STORES
from mastra_core.inmemory.payload import copy_payload
from mastra_core.plugins import AdapterContext
from mastra_core.wire.events import Event
from toynet.client import Client, open_client
from toynet.plugin import LEASES, PUBSUB

_POLL_S = 0.02


class ToyOptions(BaseModel):
    """Options of store and leases."""

    model_config = ConfigDict(extra="forbid")

    url: str = ""
    request_timeout_ms: int = 10_000


class ToyBusOptions(BusOptions):
    """Options of the bus."""

    request_timeout_ms: int = 10_000


@contextmanager
def errors(lost: type[MastraError], late: type[MastraError] | None = None) -> Iterator[None]:
    """Let only typed errors out."""
    try:
        yield
    except MastraError:
        raise
    except TimeoutError as exc:
        raise (late or lost)("The toy server took too long.") from exc
    except (OSError, EOFError) as exc:
        raise lost("The toy server didn't answer.", hint="Start it.") from exc


class Handle:
    """What store, bus and leases have in common: a client and a namespace."""

    def __init__(self, settings: Any, context: AdapterContext) -> None:
        timeout_s = self.timeout_s(settings)
        self.namespace = context.namespace
        self.share = context.share(
            ("toynet", settings.url, timeout_s), open_client(settings.url, timeout_s)
        )
        self.client: Client | None = None

    def timeout_s(self, settings: Any) -> float | None:
        return settings.request_timeout_ms / 1000

    async def attach(self) -> None:
        """Take part in the shared client, and see whether somebody answers."""
        if self.client is None:
            client = await self.share.__aenter__()
            try:
                await client.call(self.namespace, "leases.record", "?")
            except BaseException:
                await self.share.__aexit__(None, None, None)
                raise
            self.client = client

    async def detach(self) -> None:
        """Let go of it."""
        if self.client is not None:
            self.client = None
            await self.share.__aexit__(None, None, None)

    async def call(self, path: str, *arguments: Any, **options: Any) -> Any:
        if self.client is None:
            raise PubSubClosedError
        return await self.client.call(self.namespace, path, *arguments, **options)


def remote(name: str) -> Callable[..., Any]:
    """A method of the driver that the server carries out."""

    async def method(self: ToyDriver, *arguments: Any, **options: Any) -> Any:
        with errors(PubSubConnectionError):
            return await self.handle.call(f"bus.{name}", *arguments, **options)

    return method


class ToyDriver:
    """A ``BusDriver`` that polls."""

    capabilities = PUBSUB

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    async def open(self) -> None:
        with errors(PubSubConnectionError):
            await self.handle.attach()

    async def close(self) -> None:
        await self.handle.detach()

    def encode(self, topic: str, event: Event) -> tuple[Event, int]:
        event.data, size = copy_payload(event.data, MAX_EVENT_BYTES)
        return event, size

    async def watch(self, topics: Collection[str]) -> None:
        return

    async def wake(self) -> None:
        await asyncio.sleep(_POLL_S)

    append = remote("append")
    locate = remote("locate")
    read_after = remote("read_after")
    join_group = remote("join_group")
    leave_group = remote("leave_group")
    claim = remote("claim")
    settle = remote("settle")
    extend = remote("extend")
    clear = remote("clear")
    trim = remote("trim")
    list_dead = remote("list_dead")
    requeue_dead = remote("requeue_dead")
    purge_dead = remote("purge_dead")


class ToyBus(EventEngine):
    """The bus."""

    driver: type[ToyDriver] = ToyDriver

    def __init__(self, settings: ToyBusOptions, context: AdapterContext) -> None:
        self.leases = ToyLease(settings, context)
        super().__init__(
            self.driver(Handle(settings, context)),
            settings=settings.bus_settings(),
            clock=context.clock,
            ids=context.ids,
            name="toynet",
        )

    def get_lease_provider(self) -> ToyLease:
        return self.leases

    async def _release_leases(self) -> None:
        await self.leases.aclose()


class SkippingDriver(ToyDriver):
    """After a lost connection it reads on at the end."""

    generation = 0

    async def _read(self, topic: str, position: Position, limit: int) -> Page:
        client = self.handle.client
        if client is not None and client.generation > max(1, self.generation):
            self.generation = client.generation
            position = await self.locate(topic, "latest")
            return Page((), position)
        page: Page = await remote("read_after")(self, topic, position, limit)
        return page

    read_after = _read


class SkippingBus(ToyBus):
    driver = SkippingDriver


class DoublingDriver(ToyDriver):
    """Sends again what may have arrived, and forgets that it may have."""

    async def _append(self, topic: str, batch: Sequence[Outgoing]) -> Any:
        for outgoing in batch:
            outgoing.dedupe_id = None
        return await remote("append")(self, topic, batch)

    append = _append


class DoublingBus(ToyBus):
    driver = DoublingDriver


class DroppingDriver(ToyDriver):
    """Says that it was stored when nobody knows."""

    async def _append(self, topic: str, batch: Sequence[Outgoing]) -> Any:
        try:
            return await remote("append")(self, topic, batch)
        except PubSubConnectionError:
            return [None] * len(batch)

    append = _append


class DroppingBus(ToyBus):
    driver = DroppingDriver


class HastyDriver(ToyDriver):
    """Whoever gets an event has acked it."""

    async def _claim(self, topic: str, group: str, consumer: str, **options: Any) -> Any:
        claims = await remote("claim")(self, topic, group, consumer, **options)
        acks = [Ack(one.position, one.attempt) for one in claims.claims]
        if acks:
            await self.settle(topic, group, consumer, acks)
        return claims

    claim = _claim


class HastyBus(ToyBus):
    driver = HastyDriver


class UnfencedBus(ToyBus):
    """Takes a fence without looking at it."""

    async def publish(self, topic: str, event: Event, **options: Any) -> None:
        options.pop("fence", None)
        await super().publish(topic, event, **options)


class ToyLease(Handle):
    """Leases by the server's clock."""

    lease_capabilities = LEASES

    def __init__(self, settings: Any, context: AdapterContext) -> None:
        super().__init__(settings, context)
        self.holder = UuidIds().new("holder")
        self.held: dict[str, tuple[str, int]] = {}
        self.holders: dict[tuple[str, str], str] = {}
        self.is_closed = False

    async def ask(self, name: str, *arguments: Any, **options: Any) -> Any:
        if self.is_closed:
            raise PubSubClosedError
        with errors(LeaseUnavailableError):
            await self.attach()
            return await self.call(f"leases.{name}", *arguments, **options)

    def holder_of(self, key: str, owner: str, holder: str | None) -> str:
        return holder or self.holders.get((key, owner)) or self.holder

    async def acquire_lease(
        self, key: str, owner: str, ttl_ms: int, *, holder: str | None = None
    ) -> LeaseGrant:
        check_ttl(ttl_ms)
        holder = holder or self.holder
        grant: LeaseGrant = await self.ask("acquire", key, owner, ttl_ms, holder)
        if grant.acquired and grant.fence is not None:
            self.holders[key, owner] = holder
            self.held[key] = (owner, grant.fence)
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
        check_ttl(ttl_ms)
        holder = self.holder_of(key, owner, holder)
        return bool(await self.ask("renew", key, owner, ttl_ms, fence, holder))

    async def release_lease(
        self, key: str, owner: str, *, fence: int | None = None, holder: str | None = None
    ) -> bool:
        holder = self.holder_of(key, owner, holder)
        released = bool(await self.ask("release", key, owner, fence, holder))
        if released:
            self.held.pop(key, None)
        return released

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
        check_ttl(ttl_ms)
        holder = self.holder_of(key, from_owner, holder)
        grant: LeaseGrant = await self.ask(
            "transfer",
            key,
            from_owner,
            to_owner,
            ttl_ms,
            fence=fence,
            holder=holder,
            to_holder=to_holder,
        )
        return grant

    async def get_lease_owner(self, key: str) -> str | None:
        record = await self.get_lease(key)
        return record.owner if record else None

    async def get_lease(self, key: str) -> LeaseRecord | None:
        record: LeaseRecord | None = await self.ask("record", key)
        return record

    async def check_lease(self, key: str, owner: str, fence: int) -> bool:
        record = await self.get_lease(key)
        return record is not None and (record.owner, record.fence) == (owner, fence)

    async def watch_lease(self, key: str) -> AsyncIterator[LeaseEvent]:
        known = await self.get_lease(key)
        while True:
            await asyncio.sleep(_POLL_S)
            current = await self.get_lease(key)
            for event in _changes(key, known, current):
                yield event
            known = current

    async def aclose(self) -> None:
        if self.is_closed:
            return
        for key, (owner, fence) in self.held.items():
            with errors(LeaseUnavailableError):
                await self.ask("release", key, owner, fence, None)
        self.is_closed = True
        await self.detach()

    async def __aenter__(self) -> Self:
        with errors(LeaseUnavailableError):
            await self.attach()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        try:
            await self.aclose()
        except LeaseUnavailableError:
            self.is_closed = True
            await self.detach()


def _changes(
    key: str, before: LeaseRecord | None, after: LeaseRecord | None
) -> Iterator[LeaseEvent]:
    if (before and before.fence) == (after and after.fence):
        return
    if before is not None and (after is None or before.owner == after.owner):
        kind: Any = "expired" if before.ttl_remaining_ms <= 2 * _POLL_S * 1000 else "released"
        yield LeaseEvent(kind=kind, key=key, owner=before.owner, fence=before.fence)
    if after is not None:
        kind = "acquired" if before is None else "transferred"
        yield LeaseEvent(kind=kind, key=key, owner=after.owner, fence=after.fence)


class Domain:
    """Whatever it is asked for, the server does."""

    def __init__(self, store: ToyStorage, name: str) -> None:
        self._store = store
        self._name = name

    def supports_concurrent_updates(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        async def method(*arguments: Any, **options: Any) -> Any:
            return await self._store.ask(f"{self._name}.{name}", *arguments, **options)

        return method


class ToyStorage(Handle):
    """The store."""

    name = "toynet"
    volatile = False
    capabilities = STORES
    entered = 0

    @property
    def memory(self) -> Any:
        return Domain(self, "memory")

    @property
    def workflows(self) -> Any:
        return Domain(self, "workflows")

    @property
    def notifications(self) -> Any:
        return Domain(self, "notifications")

    @property
    def thread_state(self) -> Any:
        return Domain(self, "thread_state")

    @property
    def background_tasks(self) -> Any:
        return Domain(self, "background_tasks")

    @property
    def schedules(self) -> Any:
        return Domain(self, "schedules")

    def errors(self) -> Any:
        return errors(StorageConnectionError, StorageTimeoutError)

    async def ask(self, path: str, *arguments: Any, **options: Any) -> Any:
        if self.client is None:
            raise StorageConnectionError("The store is closed.")
        with self.errors():
            return await self.call(f"store.{path}", *arguments, **options)

    async def init(self) -> None:
        with self.errors():
            await self.attach()

    async def aclose(self) -> None:
        await self.detach()

    async def dangerously_clear_all(self) -> None:
        await self.ask("dangerously_clear_all")

    async def __aenter__(self) -> Self:
        await self.init()
        self.entered += 1
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.entered -= 1
        if self.entered == 0:
            await self.aclose()


class RawStorage(ToyStorage):
    """Lets the errors of its connection out as they are."""

    async def ask(self, path: str, *arguments: Any, **options: Any) -> Any:
        return await self.call(f"store.{path}", *arguments, **options)


class PatientStorage(ToyStorage):
    """Waits for ever."""

    def timeout_s(self, settings: Any) -> float | None:
        return None


class TornStorage(ToyStorage):
    """Stores a batch piece by piece."""

    async def ask(self, path: str, *arguments: Any, **options: Any) -> Any:
        if path != "memory.save_messages":
            return await super().ask(path, *arguments, **options)
        saved = []
        for message in arguments[0]:
            saved += await super().ask(path, [message], **options)
        return saved


class JammedStorage(ToyStorage):
    """Whoever is cancelled keeps everybody else out."""

    gate: asyncio.Lock | None = None

    async def ask(self, path: str, *arguments: Any, **options: Any) -> Any:
        self.gate = self.gate or asyncio.Lock()
        await self.gate.acquire()
        answer = await super().ask(path, *arguments, **options)
        self.gate.release()
        return answer


class StubbornStorage(ToyStorage):
    """Never connects again."""

    async def ask(self, path: str, *arguments: Any, **options: Any) -> Any:
        if self.client is not None and self.client.generation > 1:
            raise StorageConnectionError("The connection was lost.")
        if self.client is not None and self.client.writer is None:
            raise StorageConnectionError("The connection was lost.")
        return await super().ask(path, *arguments, **options)
