"""Where a notification stands in the indexes of the inbox, and what moving it takes."""

from __future__ import annotations

from mastra_core.base.isotime import epoch_ms
from mastra_core.rules.notification_claims import Sidecar
from mastra_core.rules.notifications import due_time
from mastra_core.wire.notifications import CreateNotification, NotificationRecord
from mastra_redis.keys import Keys, join, name_in_thread, raw
from mastra_redis.storage.host import Command

__all__ = ("InboxIndex",)

#: Above every time in milliseconds, so that later times make smaller numbers.
_AFTER = 1 << 62


class InboxIndex:
    """
    The sorted sets and sets beside the records.

    * ``list:<status>:<thread>``: ids by (updated desc, created desc, id), per status
    * ``due``: pending records with a schedule by (due, updated, id, thread)
    * ``created``: all records by creation, for retention
    * ``accepted``: accepted signals that nobody has seen as a message row, by time
    * ``key:…``: ids of the pending records of one scope and key
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self.due = keys.inbox + b"due"
        self.created = keys.inbox + b"created"
        self.accepted = keys.inbox + b"accepted"

    def listed(self, thread_id: str, status: str) -> bytes:
        """The order of a thread's records of one status."""
        return self._keys.inbox + b"list:" + raw(status) + b":" + raw(thread_id)

    def scopes(self, item: NotificationRecord | CreateNotification) -> list[bytes]:
        """Where a record with keys is found; one place per key."""
        if not item.dedupe_key and not item.coalesce_key:
            return []
        scope = join(
            item.thread_id,
            item.source,
            item.kind,
            _optional(item.agent_id),
            _optional(item.resource_id),
        )
        named = (("dedupe", item.dedupe_key), ("coalesce", item.coalesce_key))
        return [self._keys.inbox + b"key:" + scope + join(name, key) for name, key in named if key]

    def name_of(self, record: NotificationRecord) -> bytes:
        """The end of the record's key, and of its sidecar's."""
        return name_in_thread(record.thread_id, record.id)

    def put(
        self,
        old: NotificationRecord | None,
        new: NotificationRecord | None,
        old_sidecar: Sidecar,
        new_sidecar: Sidecar,
    ) -> list[Command]:
        """What moves a record from where it stood to where it stands."""
        commands: list[Command] = []
        before, after = self._places(old, old_sidecar), self._places(new, new_sidecar)
        for place, (member, _) in before.items():
            if place not in after or after[place][0] != member:
                commands.append(("ZREM", place, member))
        for place, (member, score) in after.items():
            if before.get(place) != (member, score):
                commands.append(("ZADD", place, score, member))
        gone, come = self._sets(old), self._sets(new)
        commands += [("SREM", place, raw(old.id)) for place in gone if old and place not in come]
        commands += [("SADD", place, raw(new.id)) for place in come if new and place not in gone]
        return commands

    def _sets(self, record: NotificationRecord | None) -> list[bytes]:
        return self.scopes(record) if record and record.status == "pending" else []

    def _places(
        self, record: NotificationRecord | None, sidecar: Sidecar
    ) -> dict[bytes, tuple[bytes, int]]:
        """Sorted set → member and score."""
        if record is None:
            return {}
        name = self.name_of(record)
        created, updated = epoch_ms(record.created_at), epoch_ms(record.updated_at)
        member = b"%016x" % (_AFTER - created) + raw(record.id)
        places = {
            self.listed(record.thread_id, record.status): (member, -updated),
            self.created: (name, created),
        }
        at = due_time(record)
        if record.status == "pending" and at is not None:
            due = b"%016x" % (_AFTER + updated) + join(record.id) + name
            places[self.due] = (due, epoch_ms(at))
        if sidecar.accepted_at is not None:
            places[self.accepted] = (name, epoch_ms(sidecar.accepted_at))
        return places


def _optional(value: str | None) -> str:
    return "-" if value is None else f"={value}"
