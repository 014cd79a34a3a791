"""Data of the notifications domain, with the orders that keep its lists cheap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from heapq import merge
from typing import Any, TypeVar

from mastra_core.inmemory.storage.copies import Encoded, copied, ms
from mastra_core.inmemory.storage.domain import Tables
from mastra_core.inmemory.storage.sorted_keys import SortedKeys
from mastra_core.rules.notification_claims import Sidecar
from mastra_core.rules.notifications import due_time, inbox_key, merge_choice_key
from mastra_core.wire.notifications import (
    CreateNotification,
    NotificationPatch,
    NotificationRecord,
)

__all__ = ("Key", "NotificationTables", "given_out", "taken_in")

Key = tuple[str, str]
"""``(thread_id, id)``: the identity of a record."""

_MAPS = ("attributes", "metadata")
_NO_SIDECAR = Sidecar()


M = TypeVar("M", CreateNotification, NotificationPatch, NotificationRecord)


def taken_in(model: M) -> M:
    """What the caller made, with JSON members of the store's own; the payload is encoded."""
    if model.payload is None:
        return copied(model, _MAPS)
    return copied(model, _MAPS, payload=Encoded.of(model.payload, "$.payload"))


def given_out(record: NotificationRecord) -> NotificationRecord:
    """A record that the caller may do with as he likes."""
    if record.payload is None:
        return copied(record, _MAPS)
    return copied(record, _MAPS, payload=record.payload.value())


class NotificationTables(Tables):
    """Records and sidecars of one store. Payloads of stored records are ``Encoded``."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.records: dict[Key, NotificationRecord] = {}
        self.sidecars: dict[Key, Sidecar] = {}
        #: Thread and status to inbox order.
        self._inbox: dict[str, dict[str, SortedKeys[Any]]] = {}
        #: Pending records with a schedule: (due, updated, id, thread).
        self._due: SortedKeys[tuple[int, int, str, str]] = SortedKeys()
        #: Pending records by scope and key.
        self._keyed: dict[tuple[Any, ...], set[Key]] = {}
        #: Accepted, unconfirmed signals: (accepted, thread, id).
        self._accepted: SortedKeys[tuple[int, str, str]] = SortedKeys()

    # -- writing ------------------------------------------------------------------------------

    def put(self, record: NotificationRecord, sidecar: Sidecar | None = None) -> None:
        """Write a record, and its sidecar if one is given."""
        key = (record.thread_id, record.id)
        old = self.records.get(key)
        self.records[key] = record
        if old is None:
            self._index(record)
        elif _places(old) != _places(record):
            self._unindex(old)
            self._index(record)
        if sidecar is not None:
            self.put_sidecar(key, sidecar)

    def put_sidecar(self, key: Key, sidecar: Sidecar) -> None:
        """Write a sidecar."""
        old = self.sidecars.get(key, _NO_SIDECAR)
        if sidecar is old or (old is _NO_SIDECAR and sidecar.is_empty):
            return
        if old.accepted_at is not None:
            self._accepted.discard((ms(old.accepted_at), *key))
        if sidecar.accepted_at is not None:
            self._accepted.add((ms(sidecar.accepted_at), *key))
        if sidecar.is_empty:
            self.sidecars.pop(key, None)
        else:
            self.sidecars[key] = sidecar

    def drop(self, key: Key) -> bool:
        """Delete a record with its sidecar; True if there was one."""
        record = self.records.pop(key, None)
        if record is not None:
            self._unindex(record)
            self.put_sidecar(key, _NO_SIDECAR)
        return record is not None

    def _index(self, record: NotificationRecord) -> None:
        statuses = self._inbox.setdefault(record.thread_id, {})
        order = statuses.get(record.status)
        if order is None:
            order = statuses[record.status] = SortedKeys()
        order.add(inbox_key(record))
        if (due := _due_key(record)) is not None:
            self._due.add(due)
        for scope in _scopes(record) if record.status == "pending" else ():
            self._keyed.setdefault(scope, set()).add((record.thread_id, record.id))

    def _unindex(self, record: NotificationRecord) -> None:
        statuses = self._inbox[record.thread_id]
        statuses[record.status].discard(inbox_key(record))
        if not statuses[record.status]:
            del statuses[record.status]
        if not statuses:
            del self._inbox[record.thread_id]
        if (due := _due_key(record)) is not None:
            self._due.discard(due)
        for scope in _scopes(record) if record.status == "pending" else ():
            members = self._keyed[scope]
            members.discard((record.thread_id, record.id))
            if not members:
                del self._keyed[scope]

    # -- reading ------------------------------------------------------------------------------

    def sidecar(self, key: Key) -> Sidecar:
        """The sidecar of a record; an empty one if there is none."""
        return self.sidecars.get(key, _NO_SIDECAR)

    def inbox(self, thread_id: str, statuses: Sequence[str] | None) -> Iterator[NotificationRecord]:
        """The records of a thread in inbox order, of some statuses or all."""
        orders = self._inbox.get(thread_id, {})
        runs = [orders[status] for status in statuses or () if status in orders]
        runs = list(orders.values()) if statuses is None else runs
        keys = iter(runs[0]) if len(runs) == 1 else merge(*runs)
        return (self.records[thread_id, key[-1]] for key in keys)

    def due(self, now: datetime) -> Iterator[NotificationRecord]:
        """Pending records due at ``now``, earliest first; don't write while reading."""
        limit = ms(now)
        for at, _, notification_id, thread_id in self._due:
            if at > limit:
                return
            yield self.records[thread_id, notification_id]

    def accepted(self, before: datetime) -> Iterator[Key]:
        """Identities with a signal that was accepted before that time, earliest first."""
        limit = ms(before)
        for at, thread_id, notification_id in self._accepted:
            if at >= limit:
                return
            yield thread_id, notification_id

    def match(self, notification: CreateNotification) -> NotificationRecord | None:
        """The pending record that the event goes into (notifications.md 3.2)."""
        scopes = _scopes(notification)
        if not scopes:
            return None
        found: set[Key] = set()
        for scope in scopes:
            found |= self._keyed.get(scope, set())
        return min((self.records[key] for key in found), key=merge_choice_key, default=None)


def _scopes(item: NotificationRecord | CreateNotification) -> list[tuple[Any, ...]]:
    """Where a record with keys is found; one entry per key."""
    if not item.dedupe_key and not item.coalesce_key:
        return []
    scope = (item.thread_id, item.source, item.kind, item.agent_id, item.resource_id)
    keys = (("dedupe", item.dedupe_key), ("coalesce", item.coalesce_key))
    return [(*scope, name, key) for name, key in keys if key]


def _due_key(record: NotificationRecord) -> tuple[int, int, str, str] | None:
    at = due_time(record)
    if record.status != "pending" or at is None:
        return None
    return (ms(at), ms(record.updated_at), record.id, record.thread_id)


def _places(record: NotificationRecord) -> tuple[Any, ...]:
    """What the indexes know of a record."""
    return (record.status, record.updated_at, record.deliver_at, record.summary_at)
