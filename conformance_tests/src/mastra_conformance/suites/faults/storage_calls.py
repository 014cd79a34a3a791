"""Every operation of a store as a call that can be repeated, for outages and cancellations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mastra_conformance.suites.storage.things import (
    T0,
    approval_run,
    at,
    background_task,
    event,
    message,
    resource,
    resume_claim,
    schedule,
    snapshot,
    thread,
    trigger,
)
from mastra_core.contracts.storage import Storage
from mastra_core.contracts.storage.background_tasks import TaskFilter
from mastra_core.contracts.storage.pruning import PrunePolicy
from mastra_core.wire.notifications import NotificationPatch

__all__ = ("CALLS", "StorageCall", "calls_for", "prepare", "probe")

_WORKFLOW = "agentic-loop"
_LONG_AGO_MS = 10**12


@dataclass(frozen=True, slots=True)
class StorageCall:
    """One operation of one domain."""

    name: str
    #: Gets the store and a text that is new for every call.
    call: Callable[[Storage, str], Awaitable[object]]
    #: Beside the domain's own.
    capability: str | None = None

    @property
    def needs(self) -> frozenset[str]:
        """Capabilities without which nobody calls it."""
        domain = self.name.partition(".")[0]
        return frozenset({domain, *([self.capability] if self.capability else [])})

    def __str__(self) -> str:
        return self.name


async def prepare(store: Storage) -> None:
    """What the calls find: one thing of each kind."""
    has = store.capabilities
    if "memory" in has:
        await store.memory.save_thread(thread())
        await store.memory.save_messages([message(f"m{number}") for number in range(3)])
    if "memory.resources" in has:
        await store.memory.save_resource(resource())
    if "workflows" in has:
        await store.workflows.persist_workflow_snapshot(
            workflow_name=_WORKFLOW, run_id="run1", snapshot=approval_run(), resource_id="r1"
        )
    if "notifications" in has:
        await store.notifications.create_notification(event(id="n1", created_at=T0))
    if "background_tasks" in has:
        await store.background_tasks.create_task(background_task())
    if "schedules" in has:
        await store.schedules.create_schedule(schedule())


async def probe(store: Storage) -> None:
    """Write and read one thing of the first domain that is there."""
    has = store.capabilities
    if "thread_state" in has:
        await store.thread_state.set_state("probe", "s", {"n": 1})
        await store.thread_state.get_state("probe", "s")
    elif "memory" in has:
        await store.memory.save_thread(thread("probe"))
        await store.memory.get_thread_by_id("probe")
    elif "workflows" in has:
        await _persist(store, "probe")
        await store.workflows.load_workflow_snapshot(workflow_name=_WORKFLOW, run_id="probe")


def calls_for(store: Storage) -> Sequence[StorageCall]:
    """The calls that the store can be asked for."""
    return [call for call in CALLS if call.needs <= store.capabilities]


# -- memory ---------------------------------------------------------------------------------------


async def _save_messages(store: Storage, key: str) -> object:
    return await store.memory.save_messages([message(f"{key}-{n}") for n in range(3)])


async def _update_messages(store: Storage, key: str) -> object:
    return await store.memory.update_messages([{"id": "m0", "role": "assistant"}])


async def _delete_thread(store: Storage, key: str) -> None:
    await store.memory.save_thread(thread(key))
    await store.memory.delete_thread(key)


# -- workflows ------------------------------------------------------------------------------------


async def _persist(store: Storage, key: str) -> None:
    await store.workflows.persist_workflow_snapshot(
        workflow_name=_WORKFLOW, run_id=key, snapshot=snapshot(key)
    )


async def _persist_two(store: Storage, key: str) -> None:
    rows: list[dict[str, Any]] = [
        {"workflow_name": name, "run_id": key, "snapshot": snapshot(key)}
        for name in (_WORKFLOW, "inner")
    ]
    await store.workflows.persist_workflow_snapshots(rows)


async def _update_results(store: Storage, key: str) -> object:
    return await store.workflows.update_workflow_results(
        workflow_name=_WORKFLOW, run_id=key, step_id="s", result={"status": "success"}
    )


async def _update_state(store: Storage, key: str) -> object:
    return await store.workflows.update_workflow_state(
        workflow_name=_WORKFLOW, run_id="run1", opts={"status": "suspended", "note": key}
    )


async def _list_suspended(store: Storage, key: str) -> object:
    return await store.workflows.list_suspended_runs(
        workflow_names=[_WORKFLOW], agent_id="agent-a", page=0, per_page=10
    )


async def _claim_resume(store: Storage, key: str) -> object:
    claimed = await store.workflows.claim_resume(
        workflow_name=_WORKFLOW, run_id="run1", claim=resume_claim(key)
    )
    names: dict[str, Any] = {"workflow_name": _WORKFLOW, "run_id": "run1", "claim_id": key}
    if claimed:
        await store.workflows.extend_resume_claim(**names, ttl_ms=1_000)
        await store.workflows.record_receipt(**names, tool_call_id="call_1", receipt={"ok": True})
    return await store.workflows.release_resume_claim(**names)


async def _delete_run(store: Storage, key: str) -> None:
    await _persist(store, key)
    await store.workflows.delete_workflow_runs(run_id=key, workflow_names=[_WORKFLOW, "inner"])


# -- notifications --------------------------------------------------------------------------------


async def _create_notification(store: Storage, key: str) -> object:
    return await store.notifications.create_notification(event(id=key))


async def _merge_notification(store: Storage, key: str) -> object:
    return await store.notifications.create_notification(event(dedupe_key="ci"))


async def _claim_due(store: Storage, key: str) -> object:
    await store.notifications.create_notification(event(id=key, deliver_at=T0))
    claims = await store.notifications.claim_due(at(100), key, limit=5)
    refs = [one.ref for one in claims]
    for ref in refs[:1]:
        await store.notifications.extend_claim(ref)
        await store.notifications.finalize_full(ref, delivered_signal_id=key, at=at(101))
    await store.notifications.fail_claims(
        refs[1:2], error="no", at=at(101), retry_at=[at(200)] * len(refs[1:2]), max_attempts=5
    )
    return await store.notifications.release_claims(refs[2:])


async def _finalize_summary(store: Storage, key: str) -> object:
    await store.notifications.create_notification(event(id=key, summary_at=T0))
    claims = await store.notifications.claim_due(at(100), key, limit=5)
    refs = [one.ref for one in claims]
    return await store.notifications.finalize_summary(refs, summary_signal_id=key, at=at(101))


async def _accept(store: Storage, key: str) -> object:
    await store.notifications.record_acceptance("t1", "n1", signal_id=key, at=T0)
    await store.notifications.claim_unconfirmed(at(100), key, limit=1)
    return await store.notifications.confirm_delivery("t1", "n1", signal_id=key)


# -- the rest -------------------------------------------------------------------------------------


async def _task(store: Storage, key: str) -> object:
    await store.background_tasks.create_task(background_task(key))
    await store.background_tasks.update_task(key, {"status": "running"}, expected_status="pending")
    return await store.background_tasks.delete_task(key)


async def _schedule(store: Storage, key: str) -> object:
    await store.schedules.create_schedule(schedule(key))
    await store.schedules.update_schedule(key, {"status": "paused"})
    await store.schedules.record_trigger(trigger(key, schedule_id=key))
    return await store.schedules.delete_schedule(key)


async def _fire(store: Storage, key: str) -> object:
    return await store.schedules.update_schedule_next_fire(
        "s1", expected_next_fire_at=1_000, new_next_fire_at=1_000, last_fire_at=999
    )


async def _swap(store: Storage, key: str) -> object:
    return await store.thread_state.compare_and_set(key, "s", expected=None, value={"n": 1})


def _prune(domain: str, table: str) -> Callable[[Storage, str], Awaitable[object]]:
    async def prune(store: Storage, key: str) -> object:
        policy = PrunePolicy(table=table, max_age_ms=_LONG_AGO_MS)
        return await getattr(store, domain).prune([policy])

    return prune


CALLS: tuple[StorageCall, ...] = (
    StorageCall("memory.save_thread", lambda s, k: s.memory.save_thread(thread(k))),
    StorageCall("memory.get_thread_by_id", lambda s, _: s.memory.get_thread_by_id("t1")),
    StorageCall(
        "memory.update_thread",
        lambda s, k: s.memory.update_thread("t1", title=k),
        "memory.partial_thread_update",
    ),
    StorageCall("memory.delete_thread", _delete_thread),
    StorageCall("memory.list_threads", lambda s, _: s.memory.list_threads(page=0, per_page=5)),
    StorageCall("memory.save_messages", _save_messages),
    StorageCall("memory.update_messages", _update_messages),
    StorageCall(
        "memory.delete_messages",
        lambda s, k: s.memory.delete_messages([f"{k}-0", "nobody"]),
        "memory.delete_messages",
    ),
    StorageCall("memory.list_messages", lambda s, _: s.memory.list_messages("t1")),
    StorageCall("memory.list_messages_by_id", lambda s, _: s.memory.list_messages_by_id(["m0"])),
    StorageCall(
        "memory.save_resource",
        lambda s, k: s.memory.save_resource(resource(k)),
        "memory.resources",
    ),
    StorageCall(
        "memory.update_resource",
        lambda s, k: s.memory.update_resource("r1", working_memory=k),
        "memory.resources",
    ),
    StorageCall(
        "memory.clone_thread",
        lambda s, k: s.memory.clone_thread("t1", new_thread_id=k),
        "memory.clone_thread",
    ),
    StorageCall(
        "memory.update_thread_resource_id",
        lambda s, k: s.memory.update_thread_resource_id("t1", k),
        "memory.move_thread",
    ),
    StorageCall("memory.prune", _prune("memory", "messages"), "storage.retention"),
    StorageCall("workflows.persist_workflow_snapshot", _persist),
    StorageCall("workflows.persist_workflow_snapshots", _persist_two),
    StorageCall("workflows.update_workflow_results", _update_results, "workflows.atomic_updates"),
    StorageCall("workflows.update_workflow_state", _update_state, "workflows.atomic_updates"),
    StorageCall(
        "workflows.load_workflow_run",
        lambda s, _: s.workflows.load_workflow_run(workflow_name=_WORKFLOW, run_id="run1"),
    ),
    StorageCall(
        "workflows.list_workflow_runs",
        lambda s, _: s.workflows.list_workflow_runs(page=0, per_page=5),
    ),
    StorageCall("workflows.list_suspended_runs", _list_suspended),
    StorageCall("workflows.claim_resume", _claim_resume, "workflows.claim_resume"),
    StorageCall(
        "workflows.recover_expired_claims",
        lambda s, _: s.workflows.recover_expired_claims(workflow_names=[_WORKFLOW]),
        "workflows.claim_resume",
    ),
    StorageCall("workflows.delete_workflow_runs", _delete_run),
    StorageCall("workflows.prune", _prune("workflows", "workflowSnapshot"), "storage.retention"),
    StorageCall("notifications.create_notification", _create_notification),
    StorageCall("notifications.merge", _merge_notification, "notifications.unique_dedupe"),
    StorageCall(
        "notifications.get_notification", lambda s, _: s.notifications.get_notification("t1", "n1")
    ),
    StorageCall(
        "notifications.list_notifications",
        lambda s, _: s.notifications.list_notifications("t1", limit=5),
    ),
    StorageCall(
        "notifications.list_due_notifications",
        lambda s, _: s.notifications.list_due_notifications(at(100), limit=5),
    ),
    StorageCall(
        "notifications.update_notification",
        lambda s, k: s.notifications.update_notification(
            "t1", "n1", NotificationPatch(delivery_reason=k)
        ),
    ),
    StorageCall(
        "notifications.update_notifications_status",
        lambda s, _: s.notifications.update_notifications_status("t1", ["n1"], "seen"),
        "notifications.bulk_status",
    ),
    StorageCall("notifications.claim_due", _claim_due, "notifications.claims"),
    StorageCall("notifications.finalize_summary", _finalize_summary, "notifications.claims"),
    StorageCall("notifications.claim_unconfirmed", _accept, "notifications.claims"),
    StorageCall("thread_state.set_state", lambda s, k: s.thread_state.set_state(k, "s", {"n": 1})),
    StorageCall("thread_state.get_state", lambda s, _: s.thread_state.get_state("t1", "s")),
    StorageCall("thread_state.compare_and_set", _swap, "thread_state.compare_and_set"),
    StorageCall("thread_state.delete_state", lambda s, k: s.thread_state.delete_state(k, "s")),
    StorageCall("background_tasks.create_update_delete", _task),
    StorageCall(
        "background_tasks.list_tasks",
        lambda s, _: s.background_tasks.list_tasks(TaskFilter(agent_id="agent-a")),
    ),
    StorageCall("schedules.create_update_delete", _schedule),
    StorageCall("schedules.update_schedule_next_fire", _fire, "schedules.claim_fire"),
    StorageCall("schedules.list_due_schedules", lambda s, _: s.schedules.list_due_schedules(2_000)),
)
"""Every operation that waits for the store, some together with what belongs to them."""
