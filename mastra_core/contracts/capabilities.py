"""Names of what a backend can do, where they come from, and which ones imply others.

Storage declares a set of names; pubsub and lease declare records (``PubSubCapabilities``,
``LeaseCapabilities``), whose truthful members read as ``pubsub.durable`` or ``lease.watch``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from mastra_core.contracts.lease import LeaseCapabilities
    from mastra_core.contracts.pubsub import PubSubCapabilities

__all__ = (
    "LEASE_CAPABILITIES",
    "PUBSUB_CAPABILITIES",
    "STORAGE_CAPABILITIES",
    "STORAGE_DOMAINS",
    "Capability",
    "inconsistencies",
    "lease_capability_names",
    "pubsub_capability_names",
    "with_implied",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One thing that a backend may be able to do."""

    name: str
    role: Literal["storage", "pubsub", "lease"]
    summary: str
    #: The name of the TypeScript system, ``typescript`` where it has no flag, or ``ours``.
    origin: str
    #: Whoever declares this one must declare these, too.
    implies: tuple[str, ...] = ()


#: The six storage domains, in the order in which they are shown.
STORAGE_DOMAINS: Final[tuple[str, ...]] = (
    "memory",
    "workflows",
    "notifications",
    "thread_state",
    "background_tasks",
    "schedules",
)


def _storage(name: str, origin: str, summary: str, *implies: str) -> Capability:
    domain, _, detail = name.partition(".")
    needed = (domain, *implies) if detail and domain in STORAGE_DOMAINS else implies
    return Capability(name=name, role="storage", summary=summary, origin=origin, implies=needed)


def _by_name(*capabilities: Capability) -> Mapping[str, Capability]:
    return MappingProxyType({capability.name: capability for capability in capabilities})


#: Everything a storage may declare (design 4.5).
STORAGE_CAPABILITIES: Final[Mapping[str, Capability]] = _by_name(
    _storage("memory", "typescript", "Threads and messages."),
    _storage("workflows", "typescript", "Snapshots of runs."),
    _storage("notifications", "typescript", "The durable inbox."),
    _storage("thread_state", "typescript", "Typed state of a thread."),
    _storage("background_tasks", "typescript", "Tasks that outlive their turn."),
    _storage("schedules", "typescript", "Timers and what they start."),
    _storage(
        "memory.partial_thread_update",
        "supportsPartialThreadUpdate",
        "Title and metadata change without rewriting the thread.",
    ),
    _storage("memory.resources", "typescript", "Records of resources with working memory."),
    _storage("memory.messages_by_resource", "typescript", "Messages of all threads of a resource."),
    _storage("memory.copy_thread", "typescript", "Messages copied into another thread."),
    _storage("memory.clone_thread", "typescript", "A thread copied with new ids."),
    _storage("memory.move_thread", "ours", "A thread handed to another resource."),
    _storage("memory.delete_messages", "typescript", "Single messages removed."),
    _storage("memory.observational", "typescript", "Observations and reflections."),
    _storage(
        "workflows.atomic_updates",
        "supportsConcurrentUpdates()",
        "Parallel partial updates of one run, none lost.",
    ),
    _storage("workflows.fenced_writes", "ours", "Writes of an older owner are refused."),
    _storage("workflows.claim_resume", "ours", "Of two resumes exactly one goes on."),
    _storage("notifications.bulk_status", "typescript", "One call changes many records."),
    _storage("notifications.claims", "ours", "Due records are claimed by one dispatcher."),
    _storage("notifications.unique_dedupe", "ours", "Parallel creates with one key merge."),
    _storage("thread_state.compare_and_set", "ours", "A write only if nobody else wrote."),
    _storage("schedules.claim_fire", "typescript", "Compare-and-set of the next fire time."),
    _storage("storage.transactions", "ours", "Several operations commit together."),
    _storage("storage.retention", "prune", "Rows older than a limit are removed in batches."),
    _storage("storage.migrations", "ours", "Older databases are upgraded under a lock."),
    _storage(
        "storage.guarded_writes",
        "ours",
        "Threads and messages refuse writes of an older owner.",
        "memory",
    ),
)


def _pubsub(member: str, origin: str, summary: str, *implies: str) -> Capability:
    return Capability(
        name=f"pubsub.{member}",
        role="pubsub",
        summary=summary,
        origin=origin,
        implies=tuple(f"pubsub.{name}" for name in implies),
    )


#: Members of ``PubSubCapabilities`` that are true or false (pubsub_and_lease.md 3.1).
PUBSUB_CAPABILITIES: Final[Mapping[str, Capability]] = _by_name(
    _pubsub("durable", "ours", "Events survive the last process."),
    _pubsub("cross_process", "ours", "Reaches other processes of this host."),
    _pubsub("cross_host", "ours", "Reaches other hosts.", "cross_process"),
    _pubsub("groups", "ours", "One of several consumers gets each event."),
    _pubsub("history", "ours", "Retained events can be read."),
    _pubsub("cursors", "ours", "A subscription resumes after a position.", "history"),
    _pubsub("dead_letter", "ours", "Events that were given up are kept."),
    _pubsub("leases", "ours", "Has a lease provider of its own."),
    _pubsub("fencing", "ours", "Publishes of an older owner are refused.", "leases"),
    _pubsub("lease_watch", "ours", "Changes of a lease can be followed.", "leases"),
    _pubsub("pull", "supportedModes", "A worker holds the subscription loop."),
    _pubsub("push", "supportedModes", "Events arrive unasked."),
    _pubsub("native_batching", "supportsNativeBatching", "Deliveries come in bursts."),
    _pubsub("offsets", "supportsOffsets", "A subscription starts at an index.", "history"),
)


def _lease(member: str, summary: str, *implies: str) -> Capability:
    return Capability(
        name=f"lease.{member}",
        role="lease",
        summary=summary,
        origin="ours",
        implies=tuple(f"lease.{name}" for name in implies),
    )


#: Members of ``LeaseCapabilities`` that are true or false (pubsub_and_lease.md 6).
LEASE_CAPABILITIES: Final[Mapping[str, Capability]] = _by_name(
    _lease("cross_process", "Keeps other processes of this host out."),
    _lease("cross_host", "Keeps other hosts out.", "cross_process"),
    _lease("atomic_transfer", "A lease changes hands without being free."),
    _lease("fencing", "Every change of owner raises a number."),
    _lease("watch", "Changes of a key can be followed."),
)


def pubsub_capability_names(record: PubSubCapabilities) -> frozenset[str]:
    """The truthful members of the record, as ``pubsub.<member>``."""
    return _true_members(record, PUBSUB_CAPABILITIES, "pubsub")


def lease_capability_names(record: LeaseCapabilities) -> frozenset[str]:
    """The truthful members of the record, as ``lease.<member>``."""
    return _true_members(record, LEASE_CAPABILITIES, "lease")


def _true_members(
    record: PubSubCapabilities | LeaseCapabilities,
    known: Mapping[str, Capability],
    role: str,
) -> frozenset[str]:
    return frozenset(
        name
        for member in fields(record)
        if (name := f"{role}.{member.name}") in known and getattr(record, member.name) is True
    )


def inconsistencies(declared: Iterable[str]) -> tuple[str, ...]:
    """One sentence per fault: names that nobody knows, and names whose base is missing."""
    names = frozenset(declared)
    faults = [f"{name!r} is not a known capability." for name in sorted(names - _KNOWN.keys())]
    for name in sorted(names & _KNOWN.keys()):
        faults += [
            f"{name!r} implies {needed!r}, which is not declared."
            for needed in _KNOWN[name].implies
            if needed not in names
        ]
    return tuple(faults)


def with_implied(declared: Iterable[str]) -> frozenset[str]:
    """The names and everything that they imply."""
    names = set(declared)
    waiting = list(names)
    while waiting:
        capability = _KNOWN.get(waiting.pop())
        for needed in capability.implies if capability else ():
            if needed not in names:
                names.add(needed)
                waiting.append(needed)
    return frozenset(names)


_KNOWN: Final[Mapping[str, Capability]] = MappingProxyType(
    {**STORAGE_CAPABILITIES, **PUBSUB_CAPABILITIES, **LEASE_CAPABILITIES}
)
