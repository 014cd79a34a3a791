"""How to ask for each capability, so that an adapter without it can refuse.

A capability that promises how a call behaves, not that it exists, can't be refused
and stands in ``GUARANTEES``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from mastra_core.contracts.capabilities import (
    LEASE_CAPABILITIES,
    PUBSUB_CAPABILITIES,
    STORAGE_CAPABILITIES,
)
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.contracts.pubsub import Cursor, PubSub
from mastra_core.contracts.storage import Storage
from mastra_core.wire.events import Event
from mastra_core.wire.snapshots import ResumeClaim

__all__ = (
    "GUARANTEES",
    "LEASE_REFUSALS",
    "PUBSUB_REFUSALS",
    "STORAGE_REFUSALS",
    "Refusal",
    "refusals_for",
)

_WATCH_SECONDS = 0.2
_PRUNED = ("memory", "workflows", "notifications", "background_tasks")
_THEN = datetime(2026, 1, 1, tzinfo=UTC)

GUARANTEES = frozenset(
    {
        "memory.observational",
        "notifications.unique_dedupe",
        "storage.transactions",
        "storage.migrations",
        "pubsub.durable",
        "pubsub.cross_process",
        "pubsub.cross_host",
        "pubsub.pull",
        "pubsub.push",
        "pubsub.native_batching",
        "lease.cross_process",
        "lease.cross_host",
    }
)
"""Capabilities without a call of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One capability, and a call that needs it."""

    capability: str
    role: str
    #: Gets the opened store, bus or lease provider.
    call: Callable[[Any], Awaitable[object]]
    #: The call exists only if one of these is declared; empty for always.
    any_of: frozenset[str] = frozenset()
    #: What the call answers if the adapter may say no without raising; None if it must raise.
    answer: object = None

    def __str__(self) -> str:
        return self.capability


async def _list_threads(store: Storage) -> object:
    return await store.memory.list_threads()


async def _list_runs(store: Storage) -> object:
    return await store.workflows.list_workflow_runs()


async def _list_inbox(store: Storage) -> object:
    return await store.notifications.list_notifications("t")


async def _get_state(store: Storage) -> object:
    return await store.thread_state.get_state("t", "s")


async def _list_tasks(store: Storage) -> object:
    return await store.background_tasks.list_tasks()


async def _list_schedules(store: Storage) -> object:
    return await store.schedules.list_schedules()


async def _update_thread(store: Storage) -> object:
    return await store.memory.update_thread("t", title="new")


async def _get_resource(store: Storage) -> object:
    return await store.memory.get_resource_by_id("r")


async def _messages_of_resource(store: Storage) -> object:
    return await store.memory.list_messages_by_resource_id("r")


async def _copy_thread(store: Storage) -> object:
    return await store.memory.copy_thread("t")


async def _clone_thread(store: Storage) -> object:
    return await store.memory.clone_thread("t")


async def _move_thread(store: Storage) -> object:
    return await store.memory.update_thread_resource_id("t", "r")


async def _delete_messages(store: Storage) -> None:
    await store.memory.delete_messages(["m"])


async def _supports_concurrent_updates(store: Storage) -> object:
    return store.workflows.supports_concurrent_updates()


async def _fenced_write(store: Storage) -> None:
    await store.workflows.persist_workflow_snapshot(
        workflow_name="w", run_id="r", snapshot={"status": "pending"}, claim_id="c"
    )


async def _claim_resume(store: Storage) -> object:
    claim = ResumeClaim(
        claim_id="c",
        owner="o",
        payload_hash="h",
        acquired_at=_THEN,
        expires_at=_THEN + timedelta(minutes=1),
    )
    return await store.workflows.claim_resume(workflow_name="w", run_id="r", claim=claim)


async def _bulk_status(store: Storage) -> object:
    return await store.notifications.update_notifications_status("t", ["n"], "seen")


async def _claim_due(store: Storage) -> object:
    return await store.notifications.claim_due(_THEN, "o")


async def _compare_and_set(store: Storage) -> object:
    return await store.thread_state.compare_and_set("t", "s", expected=None, value=1)


async def _claim_fire(store: Storage) -> object:
    return await store.schedules.update_schedule_next_fire(
        "s", expected_next_fire_at=1, new_next_fire_at=2, last_fire_at=1
    )


async def _raise_fence(store: Storage) -> None:
    await store.memory.raise_fence(("k", 1))


async def _prune(store: Storage) -> object:
    for domain in _PRUNED:
        if domain in store.capabilities:
            return await getattr(store, domain).prune([])
    return None


async def _subscribe_group(bus: PubSub) -> None:
    await bus.subscribe("t", _ignore, group="g")


async def _get_history(bus: PubSub) -> object:
    return await bus.get_history("t")


async def _subscribe_cursor(bus: PubSub) -> None:
    await bus.subscribe("t", _ignore, start_from=Cursor("1"))


async def _list_dead(bus: PubSub) -> object:
    return await bus.list_dead("t")


async def _get_lease_provider(bus: PubSub) -> object:
    return bus.get_lease_provider() is not None


async def _fenced_publish(bus: PubSub) -> None:
    event = Event(type="e", run_id="r", data=None)
    await bus.publish("t", event, fence=("k", 1))


async def _subscribe_offset(bus: PubSub) -> None:
    await bus.subscribe_from_offset("t", 0, _ignore)


async def _transfer(leases: LeaseProvider) -> object:
    return await leases.transfer_lease("k", "a", "b", 1000)


async def _check(leases: LeaseProvider) -> object:
    return await leases.check_lease("k", "o", 1)


async def _watch(leases: LeaseProvider) -> object:
    watching = leases.watch_lease("k")
    try:
        async with asyncio.timeout(_WATCH_SECONDS):
            return await anext(aiter(watching))
    except TimeoutError:
        return None  # it does watch, and nothing happens
    finally:
        if isinstance(watching, AsyncGenerator):
            await watching.aclose()


async def _watch_of_bus(bus: PubSub) -> object:
    provider = bus.get_lease_provider()
    assert provider is not None
    return await _watch(provider)


async def _ignore(event: Event) -> None:
    """A handler that doesn't care."""


def _table(role: str, **calls: Callable[[Any], Awaitable[object]]) -> tuple[Refusal, ...]:
    return tuple(
        Refusal(capability=name.replace("__", "."), role=role, call=call)
        for name, call in calls.items()
    )


STORAGE_REFUSALS: tuple[Refusal, ...] = (
    *_table(
        "storage",
        memory=_list_threads,
        workflows=_list_runs,
        notifications=_list_inbox,
        thread_state=_get_state,
        background_tasks=_list_tasks,
        schedules=_list_schedules,
        memory__partial_thread_update=_update_thread,
        memory__resources=_get_resource,
        memory__messages_by_resource=_messages_of_resource,
        memory__copy_thread=_copy_thread,
        memory__clone_thread=_clone_thread,
        memory__move_thread=_move_thread,
        memory__delete_messages=_delete_messages,
        workflows__fenced_writes=_fenced_write,
        workflows__claim_resume=_claim_resume,
        notifications__bulk_status=_bulk_status,
        notifications__claims=_claim_due,
        thread_state__compare_and_set=_compare_and_set,
        schedules__claim_fire=_claim_fire,
    ),
    Refusal(
        capability="storage.retention",
        role="storage",
        call=_prune,
        any_of=frozenset(_PRUNED),
    ),
    Refusal(
        capability="storage.guarded_writes",
        role="storage",
        call=_raise_fence,
        any_of=frozenset({"memory"}),
    ),
    Refusal(
        capability="workflows.atomic_updates",
        role="storage",
        call=_supports_concurrent_updates,
        answer=False,
    ),
)

PUBSUB_REFUSALS: tuple[Refusal, ...] = (
    *_table(
        "pubsub",
        pubsub__groups=_subscribe_group,
        pubsub__history=_get_history,
        pubsub__cursors=_subscribe_cursor,
        pubsub__dead_letter=_list_dead,
        pubsub__fencing=_fenced_publish,
        pubsub__lease_watch=_watch_of_bus,
        pubsub__offsets=_subscribe_offset,
    ),
    Refusal(capability="pubsub.leases", role="pubsub", call=_get_lease_provider, answer=False),
)

LEASE_REFUSALS: tuple[Refusal, ...] = _table(
    "lease", lease__atomic_transfer=_transfer, lease__fencing=_check, lease__watch=_watch
)

_KNOWN: Mapping[str, Mapping[str, Any]] = {
    "storage": STORAGE_CAPABILITIES,
    "pubsub": PUBSUB_CAPABILITIES,
    "lease": LEASE_CAPABILITIES,
}


def refusals_for(role: str, declared: frozenset[str]) -> list[Refusal]:
    """
    The calls that an adapter must refuse in one role.

    What belongs to a base that isn't declared either is left to the refusal of the base:
    nobody gets to ask for ``memory.copy_thread`` where there is no ``memory``.
    """
    tables = {"storage": STORAGE_REFUSALS, "pubsub": PUBSUB_REFUSALS, "lease": LEASE_REFUSALS}
    return [
        refusal
        for refusal in tables[role]
        if refusal.capability not in declared
        and (not refusal.any_of or refusal.any_of & declared)
        and all(base in declared for base in _KNOWN[role][refusal.capability].implies)
    ]
