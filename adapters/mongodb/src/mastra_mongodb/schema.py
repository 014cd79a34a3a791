"""Collections and indexes: what Node creates, and additions of ours.

Every additive index names the query that needs it; an index that no query needs isn't here,
because each one costs every write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from mastra_core.wire import tables

__all__ = (
    "BUS_COMPONENT",
    "BUS_VERSION",
    "CHUNKS",
    "DEAD",
    "EPOCH",
    "EVENTS",
    "FENCES",
    "GROUPS",
    "LEASES",
    "MUTEXES",
    "OWNER_PATHS",
    "RESOURCE_PATHS",
    "STATE_PATH",
    "STORAGE_COMPONENT",
    "STORAGE_VERSION",
    "THREAD_PATHS",
    "TOPICS",
    "WAKE",
    "Component",
    "Index",
    "Names",
    "bus_component",
    "retention_index",
    "storage_component",
)

STORAGE_COMPONENT: Final = "storage"
STORAGE_VERSION: Final = 1
"""Raised with every change here that an older version of this package can't work with."""

BUS_COMPONENT: Final = "pubsub"
BUS_VERSION: Final = 1

MUTEXES: Final = "mastra_py_notification_mutexes"
"""One document per scope of keys; whoever creates a keyed notification writes to it."""

TOPICS: Final = "mastra_pubsub_topics"
EVENTS: Final = "mastra_pubsub_events"
CHUNKS: Final = "mastra_pubsub_chunks"
GROUPS: Final = "mastra_pubsub_groups"
DEAD: Final = "mastra_pubsub_dead"
WAKE: Final = "mastra_pubsub_wake"
LEASES: Final = "mastra_leases"
FENCES: Final = "mastra_fences"

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Before every time that is stored; ``> EPOCH`` is how partial indexes say "a date"."""

_STATE: Final = "snapshot.context.executionWorkflow.suspendPayload.__streamState"
_DURABLE: Final = "snapshot.context.input.messageListState.memoryInfo"

OWNER_PATHS: Final = (
    "snapshot.context.executionWorkflow.suspendPayload.__agentId",
    "snapshot.context.input.agentId",
)
"""Where the owner stands in an agent's outer row, first hit wins (snapshots.md 4.4)."""

STATE_PATH: Final = _STATE
"""If anything stands here it decides about thread and resource, even by saying null (4.4)."""

THREAD_PATHS: Final = (f"{_STATE}.messageList.memoryInfo.threadId", f"{_DURABLE}.threadId")
RESOURCE_PATHS: Final = (f"{_STATE}.messageList.memoryInfo.resourceId", f"{_DURABLE}.resourceId")


@dataclass(frozen=True, slots=True)
class Names:
    """Names of collections, with the prefix of a store."""

    prefix: str = ""

    def __call__(self, name: str) -> str:
        return self.prefix + name


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """One index of one collection."""

    collection: str
    #: Members with their direction, in order.
    keys: tuple[tuple[str, int], ...]
    #: Only ours have names of their own; those that Node creates, too, have the server's.
    name: str | None = None
    unique: bool = False
    #: Condition of a partial index.
    where: Mapping[str, Any] = field(default_factory=dict)
    expire_after_s: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """What ``createIndex`` gets beside the keys."""
        found: dict[str, Any] = {}
        if self.name:
            found["name"] = self.name
        if self.unique:
            found["unique"] = True
        if self.where:
            found["partialFilterExpression"] = dict(self.where)
        if self.expire_after_s is not None:
            found["expireAfterSeconds"] = self.expire_after_s
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """What one part of the adapter needs in a database."""

    name: str
    version: int
    collections: tuple[str, ...]
    indexes: tuple[Index, ...]
    #: Collections with options of their own, such as a size.
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


# -- storage ----------------------------------------------------------------------------------


def storage_component(names: Names) -> Component:
    """Collections and indexes of the six domains."""
    shared = (
        tables.THREADS,
        tables.MESSAGES,
        tables.RESOURCES,
        tables.WORKFLOW_SNAPSHOTS,
        tables.NOTIFICATIONS,
        tables.THREAD_STATE,
        tables.BACKGROUND_TASKS,
        tables.SCHEDULES,
        tables.SCHEDULE_TRIGGERS,
    )
    own = (tables.NOTIFICATION_CLAIMS, tables.FENCES, MUTEXES, tables.SCHEMA_VERSIONS)
    return Component(
        name=STORAGE_COMPONENT,
        version=STORAGE_VERSION,
        collections=tuple(map(names, (*shared, *own))),
        indexes=(
            *_memory_indexes(names),
            *_snapshot_indexes(names),
            *_notification_indexes(names),
            *_other_indexes(names),
        ),
    )


def _memory_indexes(names: Names) -> Iterator[Index]:
    threads, messages = names(tables.THREADS), names(tables.MESSAGES)
    yield Index(collection=threads, keys=(("id", 1),), unique=True)
    # list_threads of a resource, by either time; Node's own are beginnings of these.
    for time in ("createdAt", "updatedAt"):
        yield Index(
            collection=threads,
            keys=(("resourceId", 1), (time, -1), ("id", -1)),
            name=f"mpy_threads_resource_{time}",
        )
    yield Index(collection=messages, keys=(("id", 1),), unique=True)
    # list_messages and list_messages_by_resource_id: pages of a history.
    yield Index(
        collection=messages,
        keys=(("thread_id", 1), ("createdAt", 1), ("id", 1)),
        name="mpy_messages_thread",
    )
    yield Index(
        collection=messages,
        keys=(("resourceId", 1), ("createdAt", 1), ("id", 1)),
        name="mpy_messages_resource",
    )
    yield Index(collection=names(tables.RESOURCES), keys=(("id", 1),), unique=True)


def _snapshot_indexes(names: Names) -> Iterator[Index]:
    snapshots = names(tables.WORKFLOW_SNAPSHOTS)
    newest = (("createdAt", -1), ("run_id", -1))
    yield Index(collection=snapshots, keys=(("workflow_name", 1), ("run_id", 1)), unique=True)
    # get_workflow_run_by_id without a name.
    yield Index(collection=snapshots, keys=(("run_id", 1),))
    # list_workflow_runs, with and without a status; Node's list of suspended runs.
    yield Index(collection=snapshots, keys=(("workflow_name", 1), *newest), name="mpy_wf_created")
    yield Index(
        collection=snapshots,
        keys=(("workflow_name", 1), ("snapshot.status", 1), *newest),
        name="mpy_wf_status",
    )
    # list_suspended_runs: by owner, and by owner and thread or resource. The owner of a
    # regular run stands in its payload, that of a durable one in its input. The last keys
    # aren't for finding rows: with them a count needs the index alone.
    for layout, owner in zip(("regular", "durable"), OWNER_PATHS, strict=True):
        rest = (*newest, ("snapshot.status", 1), *(_other_owner(owner)))
        where = {"snapshot.status": "suspended", owner: {"$gt": ""}}
        yield Index(
            collection=snapshots,
            keys=(("workflow_name", 1), (owner, 1), *rest),
            name=f"mpy_wf_suspended_{layout}",
            where=where,
        )
        for place, path in _PLACES:
            yield Index(
                collection=snapshots,
                keys=(("workflow_name", 1), (owner, 1), (path, 1), *rest),
                name=f"mpy_wf_suspended_{layout}_{place}",
                where={**where, path: {"$gt": ""}},
            )
    # recover_expired_claims: rows that somebody is resuming right now.
    yield Index(
        collection=snapshots,
        keys=(("snapshot.resumeClaim.expiresAt", 1),),
        name="mpy_wf_claimed",
        where={"snapshot.resumeClaim.expiresAt": {"$gt": ""}},
    )


#: Members that a list of suspended runs may be narrowed by.
_PLACES: Final = (
    ("thread", THREAD_PATHS[0]),
    ("input_thread", THREAD_PATHS[1]),
    ("resource", "resourceId"),
    ("state_resource", RESOURCE_PATHS[0]),
    ("input_resource", RESOURCE_PATHS[1]),
)


def _other_owner(owner: str) -> tuple[tuple[str, int], ...]:
    """A durable run counts as one only if its payload names no owner."""
    return ((OWNER_PATHS[0], 1),) if owner != OWNER_PATHS[0] else ()


def _notification_indexes(names: Names) -> Iterator[Index]:
    inbox = names(tables.NOTIFICATIONS)
    # The four that Node creates (notifications.md 14.3).
    yield Index(collection=inbox, keys=(("threadId", 1), ("id", 1)), unique=True)
    yield Index(collection=inbox, keys=(("threadId", 1), ("status", 1), ("updatedAt", -1)))
    yield Index(
        collection=inbox,
        keys=(
            ("threadId", 1),
            ("source", 1),
            ("kind", 1),
            ("status", 1),
            ("agentId", 1),
            ("resourceId", 1),
            ("dedupeKey", 1),
            ("coalesceKey", 1),
        ),
    )
    yield Index(collection=inbox, keys=(("status", 1), ("deliverAt", 1), ("summaryAt", 1)))
    # list_notifications: a page of the inbox in its order, whatever the statuses.
    yield Index(
        collection=inbox,
        keys=(("threadId", 1), ("updatedAt", -1), ("createdAt", -1), ("id", 1), ("status", 1)),
        name="mpy_notifications_inbox",
    )
    # list_due_notifications and claim_due: pending records by each of their two times.
    for time in ("deliverAt", "summaryAt"):
        yield Index(
            collection=inbox,
            keys=((time, 1), ("updatedAt", 1), ("id", 1)),
            name=f"mpy_notifications_{time}",
            where={"status": "pending", time: {"$gt": EPOCH}},
        )
    # create_notification: the pending record with a coalesce key.
    yield Index(
        collection=inbox,
        keys=(("threadId", 1), ("coalesceKey", 1)),
        name="mpy_notifications_coalesce",
        where={"status": "pending", "coalesceKey": {"$gt": ""}},
    )
    # claim_unconfirmed.
    yield Index(
        collection=names(tables.NOTIFICATION_CLAIMS),
        keys=(("acceptedAt", 1),),
        name="mpy_claims_accepted",
        where={"acceptedAt": {"$gt": EPOCH}},
    )
    yield Index(
        collection=names(MUTEXES),
        keys=(("at", 1),),
        name="mpy_mutexes_expiry",
        expire_after_s=3_600,
    )


def _other_indexes(names: Names) -> Iterator[Index]:
    # Fences must outlive the terms of their owners, but not for ever (L4).
    yield Index(
        collection=names(tables.FENCES),
        keys=(("seenAt", 1),),
        name="mpy_fences_expiry",
        expire_after_s=7 * 24 * 3_600,
    )
    yield Index(
        collection=names(tables.THREAD_STATE), keys=(("threadId", 1), ("type", 1)), unique=True
    )
    tasks = names(tables.BACKGROUND_TASKS)
    yield Index(collection=tasks, keys=(("id", 1),), unique=True)
    yield Index(collection=tasks, keys=(("status", 1), ("createdAt", 1)))
    yield Index(collection=tasks, keys=(("agent_id", 1), ("status", 1)))
    yield Index(collection=tasks, keys=(("thread_id", 1), ("createdAt", 1)))
    yield Index(collection=tasks, keys=(("tool_call_id", 1),))
    schedules, triggers = names(tables.SCHEDULES), names(tables.SCHEDULE_TRIGGERS)
    yield Index(collection=schedules, keys=(("id", 1),), unique=True)
    yield Index(collection=schedules, keys=(("status", 1), ("next_fire_at", 1)))
    yield Index(collection=triggers, keys=(("id", 1),), unique=True)
    yield Index(collection=triggers, keys=(("schedule_id", 1), ("actual_fire_at", -1)))


def retention_index(collection: str, member: str) -> Index:
    """The index of a collection that is pruned by this member; keyed as Node keys it."""
    return Index(collection=collection, keys=((member, -1),))


# -- the bus ----------------------------------------------------------------------------------


def bus_component(names: Names) -> Component:
    """Collections and indexes of topics, groups and leases (pubsub_and_lease.md 8.4)."""
    events, chunks, dead = names(EVENTS), names(CHUNKS), names(DEAD)
    return Component(
        name=BUS_COMPONENT,
        version=BUS_VERSION,
        collections=tuple(
            map(
                names,
                (
                    *(TOPICS, EVENTS, CHUNKS, GROUPS, DEAD, WAKE, LEASES, FENCES),
                    tables.SCHEMA_VERSIONS,
                ),
            )
        ),
        indexes=(
            Index(
                collection=events,
                keys=(("t", 1), ("e", 1), ("s", 1)),
                name="mpy_events_order",
                unique=True,
            ),
            # A publish that is repeated after its answer was lost stores nothing.
            Index(
                collection=events,
                keys=(("t", 1), ("dedupeId", 1)),
                name="mpy_events_dedupe",
                unique=True,
                where={"dedupeId": {"$gt": ""}},
            ),
            # The end of an epoch is remembered for a while.
            Index(
                collection=events,
                keys=(("expiresAt", 1),),
                name="mpy_events_expiry",
                where={"expiresAt": {"$gt": EPOCH}},
                expire_after_s=0,
            ),
            Index(collection=chunks, keys=(("id", 1),), name="mpy_chunks_id"),
            # Pieces of an event that was never stored go by themselves.
            Index(
                collection=chunks,
                keys=(("expiresAt", 1),),
                name="mpy_chunks_expiry",
                where={"expiresAt": {"$gt": EPOCH}},
                expire_after_s=0,
            ),
            Index(collection=names(GROUPS), keys=(("t", 1),), name="mpy_groups_topic"),
            Index(collection=dead, keys=(("topic", 1), ("deadAt", 1)), name="mpy_dead_topic"),
            Index(
                collection=dead,
                keys=(("expiresAt", 1),),
                name="mpy_dead_expiry",
                expire_after_s=0,
            ),
            # Fences must outlive their leases, but not for ever (L4).
            Index(
                collection=names(LEASES),
                keys=(("purgeAt", 1),),
                name="mpy_leases_purge",
                expire_after_s=0,
            ),
        ),
        options={names(WAKE): {"capped": True, "size": 16 * 1024 * 1024}},
    )
