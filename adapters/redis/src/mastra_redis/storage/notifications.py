"""The inbox in Redis (notifications.md 3).

What an event or a patch does to a record is ``mastra_core.rules``; here texts are read,
handed to a rule and replaced, in one step of the server.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, Literal

from mastra_core.base.isotime import epoch_ms
from mastra_core.base.pace import in_turns
from mastra_core.contracts.storage import PruneOptions, PrunePolicy, PruneResult
from mastra_core.errors import (
    NotificationExistsError,
    NotificationNotFoundError,
    StorageTimeoutError,
)
from mastra_core.rules import notification_claims as claims
from mastra_core.rules import notifications as rules
from mastra_core.rules import pruning
from mastra_core.rules.arguments import check_limit, check_text, choices, moment
from mastra_core.rules.notification_claims import Sidecar
from mastra_core.wire.notifications import (
    STATUSES,
    CreateNotification,
    NotificationPatch,
    NotificationRecord,
)
from mastra_redis.errors import error_id
from mastra_redis.keys import raw, split, text
from mastra_redis.link import Argument
from mastra_redis.records import model_of
from mastra_redis.storage.host import Command, Host, Outcome, Values, digest
from mastra_redis.storage.inbox_index import InboxIndex
from mastra_redis.storage.notification_claims import ClaimStore
from mastra_redis.storage.sidecars import NO_SIDECAR, sidecar_from_text

__all__ = ("RedisNotifications",)

_Pair = tuple[NotificationRecord, Sidecar]
#: A rule over one record; None leaves it as it is.
_Rule = Callable[[NotificationRecord, Sidecar], _Pair | None]

#: How many records a filtered list reads at once.
_PORTION: Final = 200
#: How many records are read in one round of the event loop.
_RECORDS_AT_ONCE: Final = 100
#: How often a keyed create looks anew after others were faster.
_TRIES: Final = 200
_MAX_SCOPES: Final = 2_000


class RedisNotifications(ClaimStore):
    """Domain ``notifications``; see ``contracts.storage.notifications``."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._keys = host.keys
        self._index = InboxIndex(host.keys)
        #: Ids that a scope held when this process looked last; a guess that a script checks.
        self._scopes: OrderedDict[bytes, tuple[bytes, ...]] = OrderedDict()

    # -- create --------------------------------------------------------------------------------

    async def create_notification(
        self,
        notification: CreateNotification,
        *,
        on_conflict: Literal["raise", "return"] = "raise",
        guard_until: datetime | None = None,
    ) -> NotificationRecord:
        """Insert or merge, in one step of the server."""
        rules.check_create(notification)
        if guard_until is not None:
            guard_until = moment(guard_until, "guard_until")
        scopes = self._index.scopes(notification)
        new_id = notification.id or self._host.ids.new("notification")
        if not scopes:
            # Its record is its own: there is nobody to take turns with.
            return await self._create(notification, new_id, scopes, guard_until, on_conflict)
        async with self._host.turn(scopes[0]):
            return await self._create(notification, new_id, scopes, guard_until, on_conflict)

    async def _create(
        self,
        notification: CreateNotification,
        new_id: str,
        scopes: list[bytes],
        guard_until: datetime | None,
        on_conflict: Literal["raise", "return"],
    ) -> NotificationRecord:
        """Try with what is thought to be there, then with what is."""
        key = self._keys.notification(notification.thread_id, new_id)
        for attempt in range(_TRIES):
            look = None if attempt == 0 else await self._look(notification, scopes, key)
            if look is not None and look.own is not None:
                return self._existing(look.own, notification, on_conflict)
            done = await self._try_create(
                notification, new_id, scopes, look or self._guess(scopes), guard_until
            )
            if done is not None:
                return done
        raise StorageTimeoutError(
            f"Others created notifications of the same key {_TRIES} times.",
            id=error_id("create_notification"),
        )

    async def _try_create(
        self,
        notification: CreateNotification,
        new_id: str,
        scopes: list[bytes],
        look: _Look,
        guard_until: datetime | None,
    ) -> NotificationRecord | None:
        """One try; None if the database isn't as it was thought."""
        now = self._host.clock.now()
        match = look.match(notification)
        if match is None:
            record, sidecar = rules.new_record(notification, notification_id=new_id, now=now), None
            if guard_until is not None:
                record, sidecar = claims.create_guarded(
                    notification, notification_id=new_id, now=now, guard_until=guard_until
                )
            before: _Pair | None = None
        else:
            before = match
            record, sidecar = claims.merge_guarded(
                *match, notification, now=now, guard_until=guard_until
            )
        written = self._written(before, (record, sidecar or NO_SIDECAR))
        keys, args = self._create_checks(notification, new_id, scopes, look)
        for command in written.commands:
            args.append(len(command))
            args += command
        answer = await self._host.script("create_notification", "commit", keys, args)
        if answer[0] != 1:
            return None
        self._remember(record, written.after, scopes, look, is_new=match is None)
        return written.result

    def _create_checks(
        self,
        notification: CreateNotification,
        new_id: str,
        scopes: list[bytes],
        look: _Look,
    ) -> tuple[list[bytes], list[Argument]]:
        keys: list[bytes] = [self._keys.notification(notification.thread_id, new_id)]
        args: list[Argument] = [""]
        for scope in scopes:
            keys.append(scope)
            args.append(f"#{len(look.ids.get(scope, ()))}")
        for name, (record, sidecar) in look.texts.items():
            keys.append(self._keys.notification(notification.thread_id, name))
            keys.append(self._keys.sidecar(notification.thread_id, name))
            args += [digest(record), digest(sidecar)]
        return keys, args

    def _guess(self, scopes: list[bytes]) -> _Look:
        """What this process saw last of the scopes; nothing there, if it never looked."""
        recent = self._host.recent
        look = _Look()
        for scope in scopes:
            for name in self._scopes.get(scope, ()):
                record_key, sidecar_key = self._names(scope, name)
                if record_key not in recent or sidecar_key not in recent:
                    return _Look()
                look.texts[text(name)] = (recent.get(record_key), recent.get(sidecar_key))
            look.ids[scope] = self._scopes.get(scope, ())
        return look

    def _names(self, scope: bytes, name: bytes) -> tuple[bytes, bytes]:
        thread_id = split(scope[len(self._keys.inbox) + len(b"key:") :])[0]
        found = text(name)
        return self._keys.notification(thread_id, found), self._keys.sidecar(thread_id, found)

    async def _look(
        self, notification: CreateNotification, scopes: list[bytes], key: bytes
    ) -> _Look:
        """What the database holds for the event."""
        thread_id = notification.thread_id
        ids, records, sidecars, own = await self._host.script(
            "create_notification",
            "inbox_scopes",
            scopes,
            [self._keys.notification(thread_id, ""), self._keys.sidecar(thread_id, ""), key],
            repeatable=True,
        )
        look = _Look(own=own)
        for scope, members in zip(scopes, ids, strict=True):
            look.ids[scope] = tuple(members)
        names = [text(name) for name in records[::2]]
        for name, record, sidecar in zip(names, records[1::2], sidecars, strict=True):
            look.texts[name] = (record, sidecar)
        return look

    def _remember(
        self,
        record: NotificationRecord,
        after: Values | None,
        scopes: list[bytes],
        look: _Look,
        *,
        is_new: bool,
    ) -> None:
        if after is None:
            return
        recent = self._host.recent
        recent.see(self._keys.notification(record.thread_id, record.id), after[0])
        recent.see(self._keys.sidecar(record.thread_id, record.id), after[1])
        for scope in scopes:
            ids = look.ids.get(scope, ())
            self._scopes[scope] = (*ids, raw(record.id)) if is_new else ids
            self._scopes.move_to_end(scope)
        while len(self._scopes) > _MAX_SCOPES:
            self._scopes.popitem(last=False)

    def _existing(
        self,
        own: bytes,
        notification: CreateNotification,
        on_conflict: Literal["raise", "return"],
    ) -> NotificationRecord:
        if on_conflict == "return":
            return self._record(own)
        raise NotificationExistsError(
            thread_id=notification.thread_id, notification_id=notification.id or ""
        )

    # -- read ----------------------------------------------------------------------------------

    async def get_notification(
        self, thread_id: str, notification_id: str
    ) -> NotificationRecord | None:
        """Exactly that pair, or None."""
        key = self._keys.notification(thread_id, notification_id)
        found = await self._host.read("get_notification", "GET", key)
        return None if found is None else self._record(found)

    async def list_notifications(
        self,
        thread_id: str,
        *,
        status: str | Sequence[str] | None = None,
        priority: str | Sequence[str] | None = None,
        source: str | None = None,
        resource_id: str | None = None,
        agent_id: str | None = None,
        search: str | None = None,
        limit: int | None = None,
    ) -> list[NotificationRecord]:
        """The inbox, latest updated first; costs what is passed over, not the thread."""
        rules.check_list(status=status, priority=priority, search=search, limit=limit)
        statuses, priorities = choices(status), choices(priority)
        lists = [self._index.listed(thread_id, name) for name in statuses or STATUSES]
        if statuses == () or priorities == ():
            return []
        filters = any((priorities, source, resource_id, agent_id, search))
        portion = -1 if limit is None else max(limit, _PORTION) if filters else limit
        found: list[NotificationRecord] = []
        offset, more = 0, True
        while more and (limit is None or len(found) < limit):
            texts, follows = await self._host.script(
                "list_notifications",
                "inbox_page",
                lists,
                [self._keys.notification(thread_id, ""), offset, portion],
                repeatable=True,
            )
            records = await in_turns(
                [one for one in texts if one],
                lambda some: [self._record(one) for one in some],
                at_once=_RECORDS_AT_ONCE,
            )
            found += [
                record
                for record in records
                if (priorities is None or record.priority in priorities)
                and (not source or record.source == source)
                and (not resource_id or record.resource_id == resource_id)
                and (not agent_id or record.agent_id == agent_id)
                and rules.matches_search(record, search)
            ]
            offset, more = offset + portion, bool(follows)
        return found[:limit]

    async def list_due_notifications(
        self,
        now: datetime,
        *,
        limit: int | None = None,
        agent_id: str | None = None,
        resource_id: str | None = None,
    ) -> list[NotificationRecord]:
        """Pending records due at ``now``, earliest first."""
        check_limit(limit)
        due_ms = epoch_ms(moment(now))
        filters = bool(agent_id or resource_id)
        portion = -1 if limit is None else max(limit, _PORTION) if filters else limit
        found: list[NotificationRecord] = []
        offset, more = 0, True
        while more and (limit is None or len(found) < limit):
            page = await self._page(
                "list_due_notifications", self._index.due, due_ms, offset, portion
            )
            found += [
                record
                for record, *_ in page.pairs
                if (not agent_id or record.agent_id == agent_id)
                and (not resource_id or record.resource_id == resource_id)
            ]
            offset, more = offset + portion, portion > 0 and page.size == portion
        return found[:limit]

    # -- change --------------------------------------------------------------------------------

    async def update_notification(
        self,
        thread_id: str,
        notification_id: str,
        patch: NotificationPatch,
        *,
        expected_statuses: Sequence[str] | None = None,
        settle_guard: bool = False,
        expected_count: int | None = None,
    ) -> NotificationRecord | None:
        """Write the members that are set, in one step of the server."""
        rules.check_patch(patch)
        now = self._host.clock.now()

        def rule(record: NotificationRecord, sidecar: Sidecar) -> _Pair | None:
            return claims.patch_expected(
                record,
                sidecar,
                patch,
                now=now,
                settle_guard=settle_guard,
                expected_statuses=expected_statuses,
                expected_count=expected_count,
            )

        found, changed = await self._change("update_notification", thread_id, notification_id, rule)
        if not found:
            raise NotificationNotFoundError(thread_id=thread_id, notification_id=notification_id)
        return changed

    async def update_notifications_status(
        self,
        thread_id: str,
        notification_ids: Sequence[str],
        status: str,
        *,
        expected_statuses: Sequence[str] | None = None,
    ) -> list[NotificationRecord]:
        """One status for many records; the changes travel together."""
        rules.check_status(status)
        now = self._host.clock.now()

        def rule(record: NotificationRecord, sidecar: Sidecar) -> _Pair | None:
            if expected_statuses is not None and record.status not in expected_statuses:
                return None
            return rules.apply_status(record, status, now=now), sidecar

        changed: list[NotificationRecord] = []
        names = list(dict.fromkeys(notification_ids))
        for first in range(0, len(names), _PORTION):
            outcomes = await asyncio.gather(
                *(
                    self._change("update_notifications_status", thread_id, name, rule)
                    for name in names[first : first + _PORTION]
                )
            )
            changed += [record for _, record in outcomes if record is not None]
        return changed

    async def mark_notification_delivered(
        self,
        thread_id: str,
        notification_id: str,
        *,
        delivered_signal_id: str,
        last_delivery_attempt_at: datetime,
    ) -> NotificationRecord | None:
        """Both facts always, the status only from pending; None if missing."""
        at = moment(last_delivery_attempt_at, "last_delivery_attempt_at")
        check_text(delivered_signal_id, "delivered_signal_id")
        now = self._host.clock.now()

        def rule(record: NotificationRecord, sidecar: Sidecar) -> _Pair:
            marked = rules.delivered_record(
                record,
                delivered_signal_id=delivered_signal_id,
                last_delivery_attempt_at=at,
                now=now,
            )
            return marked, sidecar

        _, changed = await self._change(
            "mark_notification_delivered", thread_id, notification_id, rule
        )
        return changed

    async def requeue(self, thread_id: str, notification_id: str) -> NotificationRecord:
        """A failed record, pending and due now."""
        now = self._host.clock.now()

        def rule(record: NotificationRecord, sidecar: Sidecar) -> _Pair | None:
            return claims.requeue(record, sidecar, now=now)

        for key in self._both(thread_id, notification_id):
            self._host.recent.forget(key)  # what is refused is refused on a fresh look
        found, changed = await self._change("requeue", thread_id, notification_id, rule)
        if not found or changed is None:
            raise NotificationNotFoundError(thread_id=thread_id, notification_id=notification_id)
        return changed

    # -- delete --------------------------------------------------------------------------------

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        """Delete records created strictly before the limit, whatever their status."""
        options = pruning.check_policies(policies, options, (pruning.NOTIFICATIONS,))
        return [await self._prune(policy, options) for policy in policies]

    async def _prune(self, policy: PrunePolicy, options: PruneOptions) -> PruneResult:
        before = epoch_ms(pruning.cutoff(policy, self._host.clock.now())) - 1

        async def count() -> int:
            return int(
                await self._host.read("prune", "ZCOUNT", self._index.created, "-inf", before)
            )

        async def delete(wanted: int) -> int:
            page = await self._page("prune", self._index.created, before, 0, wanted)
            gone = await asyncio.gather(*(self._drop(record) for record, *_ in page.pairs))
            if page.lost:
                await self._host.write("prune", "ZREM", self._index.created, *page.lost)
            return sum(gone) + len(page.lost)

        return await pruning.prune_table(
            policy,
            options,
            domain="notifications",
            count=count,
            delete=delete,
            sleep=self._host.clock.sleep,
        )

    async def _drop(self, record: NotificationRecord) -> bool:
        keys = self._both(record.thread_id, record.id)

        def compute(seen: Values) -> Outcome[bool]:
            if seen[0] is None:
                return Outcome(False)
            found, sidecar = self._record(seen[0]), sidecar_from_text(seen[1])
            commands: list[Command] = [("DEL", *keys)]
            commands += self._index.put(found, None, sidecar, NO_SIDECAR)
            return Outcome(True, commands, (None, None))

        return await self._host.change("prune", keys, compute)

    async def dangerously_clear_all(self) -> None:
        """Delete every record, claim and guard."""
        await self._host.clear(
            "dangerously_clear_all",
            (self._keys.notifications, self._keys.sidecars, self._keys.inbox),
        )
        self._scopes.clear()

    # -- one record ----------------------------------------------------------------------------

    async def _change(
        self, operation: str, thread_id: str, notification_id: str, rule: _Rule
    ) -> tuple[bool, NotificationRecord | None]:
        """Apply a rule to a record; whether it is there, and what became of it."""
        keys = self._both(thread_id, notification_id)

        def compute(seen: Values) -> Outcome[tuple[bool, NotificationRecord | None]]:
            if seen[0] is None:
                return Outcome((False, None))
            before = (self._record(seen[0]), sidecar_from_text(seen[1]))
            after = rule(*before)
            if after is None:
                return Outcome((True, None))
            written = self._written(before, after)
            return Outcome((True, written.result), written.commands, written.after)

        return await self._host.change(operation, keys, compute)


class _Look:
    """What a database holds for an event: ids by scope, texts by id, the event's own record."""

    def __init__(self, own: bytes | None = None) -> None:
        self.own = own
        self.ids: dict[bytes, tuple[bytes, ...]] = {}
        self.texts: dict[str, tuple[bytes | None, bytes | None]] = {}

    def match(self, notification: CreateNotification) -> _Pair | None:
        """The pending record that the event goes into."""
        found: list[_Pair] = []
        for name, (record_text, sidecar_text) in self.texts.items():
            if record_text is None:
                continue
            record = model_of(NotificationRecord, record_text, what=f"notification {name!r}")
            if rules.matches_key(record, notification):
                found.append((record, sidecar_from_text(sidecar_text)))
        return min(found, key=lambda pair: rules.merge_choice_key(pair[0]), default=None)
