"""Claims on notifications in Redis (notifications.md 13).

Claims are dated by the server's clock; each record changes in one step of the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

from mastra_core.base import jsonjs
from mastra_core.base.isotime import epoch_ms
from mastra_core.contracts.storage.notifications import ClaimRef, NotificationClaim
from mastra_core.errors import StorageArgumentError
from mastra_core.rules import notification_claims as claims
from mastra_core.rules.arguments import check_limit, check_text, moment
from mastra_core.rules.notification_claims import Claimed, Sidecar
from mastra_core.wire.notifications import NotificationRecord
from mastra_redis.keys import Keys
from mastra_redis.records import encoded, model_of
from mastra_redis.storage.host import Command, Host, Outcome, Values, time_of
from mastra_redis.storage.inbox_index import InboxIndex
from mastra_redis.storage.sidecars import sidecar_from_text, sidecar_to_text

__all__ = ("ClaimStore", "DuePage")

T = TypeVar("T")
_Pair = tuple[NotificationRecord, Sidecar]

#: How many records a claim looks at in one go beyond what it wants.
_PORTION: Final = 100


@dataclass(slots=True)
class DuePage:
    """Records that an index gave, with the server's time."""

    now: datetime
    #: How many members the index gave, records or not.
    size: int
    #: Record, sidecar, and the texts of both.
    pairs: list[tuple[NotificationRecord, Sidecar, bytes, bytes | None]] = field(
        default_factory=list
    )
    #: Members without a record.
    lost: list[bytes] = field(default_factory=list)


class ClaimStore:
    """The part of the notifications domain that knows claims."""

    _host: Host
    _keys: Keys
    _index: InboxIndex

    async def claim_due(
        self,
        now: datetime,
        owner: str,
        *,
        limit: int = 100,
        visibility_ms: int = 120_000,
        agent_ids: Sequence[str] | None = None,
        thread_id: str | None = None,
    ) -> list[NotificationClaim]:
        """Take due records, each for exactly one claimer."""
        now = moment(now)
        _check_claim(owner, limit, visibility_ms)
        agents = None if agent_ids is None else {None, *agent_ids}

        def is_free(record: NotificationRecord, sidecar: Sidecar, store_now: datetime) -> bool:
            return (
                (agents is None or record.agent_id in agents)
                and (thread_id is None or record.thread_id == thread_id)
                and claims.is_claimable(sidecar, store_now=store_now)
            )

        def claim(record: NotificationRecord, sidecar: Sidecar, store_now: datetime) -> Claimed:
            return claims.claim_due(
                record,
                sidecar,
                owner=owner,
                now=now,
                store_now=store_now,
                visibility_ms=visibility_ms,
            )

        return await self._claim(
            "claim_due", self._index.due, epoch_ms(now), limit, is_free=is_free, claim=claim
        )

    async def claim_unconfirmed(
        self,
        accepted_before: datetime,
        owner: str,
        *,
        limit: int = 100,
        visibility_ms: int = 120_000,
        agent_ids: Sequence[str] | None = None,
    ) -> list[NotificationClaim]:
        """Take records whose accepted signal nobody has seen as a message row."""
        before = moment(accepted_before, "accepted_before")
        _check_claim(owner, limit, visibility_ms)
        agents = None if agent_ids is None else {None, *agent_ids}

        def is_free(record: NotificationRecord, sidecar: Sidecar, store_now: datetime) -> bool:
            return (agents is None or record.agent_id in agents) and claims.is_unconfirmed(
                record, sidecar, before=before, store_now=store_now
            )

        def claim(record: NotificationRecord, sidecar: Sidecar, store_now: datetime) -> Claimed:
            return claims.claim_unconfirmed(
                record, sidecar, owner=owner, store_now=store_now, visibility_ms=visibility_ms
            )

        return await self._claim(
            "claim_unconfirmed",
            self._index.accepted,
            epoch_ms(before) - 1,
            limit,
            is_free=is_free,
            claim=claim,
        )

    async def _claim(
        self,
        operation: str,
        index: bytes,
        highest: int,
        limit: int,
        *,
        is_free: Callable[[NotificationRecord, Sidecar, datetime], bool],
        claim: Callable[[NotificationRecord, Sidecar, datetime], Claimed],
    ) -> list[NotificationClaim]:
        """Take free records from the front of an index; whoever loses one looks further."""
        taken: list[NotificationClaim] = []
        offset = 0
        while len(taken) < limit:
            wanted = limit - len(taken)
            portion = wanted if offset == 0 else max(wanted, _PORTION)
            page = await self._page(operation, index, highest, offset, portion)
            free = [pair for pair in page.pairs if is_free(pair[0], pair[1], page.now)]
            results = await asyncio.gather(
                *(
                    self._claim_one(operation, pair, claim(pair[0], pair[1], page.now))
                    for pair in free[:wanted]
                )
            )
            won = [result for result in results if result is not None]
            taken += won
            # Who was claimed has left the front; who wasn't is passed over next time.
            offset += page.size - len(won) if index == self._index.due else page.size
            if page.size < portion:
                break
        return taken

    async def _claim_one(
        self,
        operation: str,
        pair: tuple[NotificationRecord, Sidecar, bytes, bytes | None],
        claimed: Claimed,
    ) -> NotificationClaim | None:
        record, sidecar, record_text, sidecar_text = pair
        keys = self._both(record.thread_id, record.id)
        written = self._written((record, sidecar), (claimed.record, claimed.sidecar))
        lost = await self._host.commit(
            operation, keys, (record_text, sidecar_text), written.commands
        )
        for place, key in enumerate(keys):
            if lost is None and written.after is not None:
                self._host.recent.see(key, written.after[place])
            else:
                self._host.recent.forget(key)
        return claimed.claim if lost is None else None

    # -- what may follow a claim -----------------------------------------------------------------

    async def extend_claim(self, ref: ClaimRef, *, visibility_ms: int = 120_000) -> bool:
        """Keep it longer; False if the token is not current."""
        check_limit(visibility_ms, "visibility_ms")
        store_now = await self._host.now("extend_claim")

        def rule(record: NotificationRecord, sidecar: Sidecar) -> _Pair:
            return claims.extend(record, sidecar, store_now=store_now, visibility_ms=visibility_ms)

        [extended] = await self._change_claimed("extend_claim", [ref], [rule])
        return extended is not None

    async def finalize_full(
        self, ref: ClaimRef, *, delivered_signal_id: str, at: datetime
    ) -> NotificationRecord | None:
        """A full delivery was accepted; None if the token is not current."""
        at = moment(at, "at")
        check_text(delivered_signal_id, "delivered_signal_id")
        now = self._host.clock.now()

        def rule(record: NotificationRecord, sidecar: Sidecar) -> _Pair:
            return claims.finalize_full(
                record, sidecar, delivered_signal_id=delivered_signal_id, at=at, now=now
            )

        [done] = await self._change_claimed("finalize_full", [ref], [rule])
        return done

    async def finalize_summary(
        self, refs: Sequence[ClaimRef], *, summary_signal_id: str, at: datetime
    ) -> bool:
        """A summary was accepted: all members or none; False if any token is not current."""
        at = moment(at, "at")
        check_text(summary_signal_id, "summary_signal_id")
        now = self._host.clock.now()
        members = list(dict.fromkeys(refs))

        def rule(record: NotificationRecord, sidecar: Sidecar) -> _Pair:
            return claims.finalize_summary(
                record, sidecar, summary_signal_id=summary_signal_id, at=at, now=now
            )

        done = await self._change_claimed(
            "finalize_summary", members, [rule] * len(members), all_or_none=True
        )
        return all(record is not None for record in done)

    async def fail_claims(
        self,
        refs: Sequence[ClaimRef],
        *,
        error: str,
        at: datetime,
        retry_at: Sequence[datetime],
        max_attempts: int,
    ) -> list[NotificationRecord]:
        """Count one failure for each current claim, in one step; stale tokens are skipped."""
        at = moment(at, "at")
        if len(refs) != len(retry_at):
            raise StorageArgumentError(
                f"retry_at has {len(retry_at)} times for {len(refs)} claims."
            )
        times = [moment(value, "retry_at") for value in retry_at]
        now = self._host.clock.now()
        counted: dict[int, bool] = {}

        def rule_of(place: int) -> Callable[[NotificationRecord, Sidecar], _Pair]:
            def rule(record: NotificationRecord, sidecar: Sidecar) -> _Pair:
                after, closed, counted[place] = claims.fail(
                    record,
                    sidecar,
                    error=error,
                    at=at,
                    retry_at=times[place],
                    max_attempts=max_attempts,
                    now=now,
                )
                return after, closed

            return rule

        rules = [rule_of(place) for place in range(len(refs))]
        failed = await self._change_claimed("fail_claims", refs, rules)
        return [
            record
            for place, record in enumerate(failed)
            if record is not None and counted.get(place)
        ]

    async def release_claims(
        self, refs: Sequence[ClaimRef], *, due_at: datetime | None = None
    ) -> int:
        """Give claims back without counting an attempt; how many were current."""
        due_at = None if due_at is None else moment(due_at, "due_at")

        def rule(record: NotificationRecord, sidecar: Sidecar) -> _Pair:
            return claims.release(record, sidecar, due_at=due_at)

        done = await self._change_claimed("release_claims", refs, [rule] * len(refs))
        return sum(record is not None for record in done)

    async def confirm_delivery(
        self, thread_id: str, notification_id: str, *, signal_id: str
    ) -> bool:
        """Forget the acceptance; False if it isn't that signal."""

        def rule(record: NotificationRecord, sidecar: Sidecar) -> _Pair | None:
            confirmed = claims.confirm(sidecar, signal_id=signal_id)
            return None if confirmed is None else (record, confirmed)

        return await self._change_sidecar("confirm_delivery", thread_id, notification_id, rule)

    async def record_acceptance(
        self, thread_id: str, notification_id: str, *, signal_id: str, at: datetime
    ) -> None:
        """Remember an accepted signal; nothing to remember for a record that is gone."""
        at = moment(at, "at")
        check_text(signal_id, "signal_id")

        def rule(record: NotificationRecord, sidecar: Sidecar) -> _Pair:
            return record, claims.accept(sidecar, signal_id=signal_id, at=at)

        await self._change_sidecar("record_acceptance", thread_id, notification_id, rule)

    # -- shared with the other part ----------------------------------------------------------------

    async def _page(
        self, operation: str, index: bytes, highest: int, offset: int, count: int
    ) -> DuePage:
        """Records of an index, with sidecars and the server's time; -1 for all."""
        now, members, records, sidecars = await self._host.script(
            operation,
            "inbox_due",
            [index],
            [highest, offset, count, self._keys.notifications, self._keys.sidecars],
            repeatable=True,
        )
        page = DuePage(now=time_of(now), size=len(members))
        for member, record_text, sidecar_text in zip(members, records, sidecars, strict=True):
            if record_text is None:
                page.lost.append(member)
                continue
            record, sidecar = self._record(record_text), sidecar_from_text(sidecar_text)
            page.pairs.append((record, sidecar, record_text, sidecar_text))
        return page

    async def _change_claimed(
        self,
        operation: str,
        refs: Sequence[ClaimRef],
        rules: Sequence[Callable[[NotificationRecord, Sidecar], _Pair]],
        *,
        all_or_none: bool = False,
    ) -> list[NotificationRecord | None]:
        """Apply a rule to each record whose claim is current, all in one step of the server."""
        if not refs:
            return []
        keys = [key for ref in refs for key in self._both(ref.thread_id, ref.notification_id)]

        def compute(seen: Values) -> Outcome[list[NotificationRecord | None]]:
            results: list[NotificationRecord | None] = []
            commands: list[Command] = []
            state: dict[tuple[str, str], tuple[bytes | None, bytes | None]] = {}
            for place, (ref, rule) in enumerate(zip(refs, rules, strict=True)):
                name = (ref.thread_id, ref.notification_id)
                texts = state.setdefault(name, (seen[2 * place], seen[2 * place + 1]))
                sidecar = sidecar_from_text(texts[1])
                if texts[0] is None or not claims.is_current(sidecar, ref):
                    results.append(None)
                    continue
                record = self._record(texts[0])
                written = self._written((record, sidecar), rule(record, sidecar))
                commands += written.commands
                if written.after is not None:
                    state[name] = (written.after[0], written.after[1])
                results.append(written.result)
            if all_or_none and None in results:
                return Outcome([None])
            after = [text for ref in refs for text in state[ref.thread_id, ref.notification_id]]
            return Outcome(results, commands, after)

        return await self._host.change(operation, keys, compute)

    async def _change_sidecar(
        self,
        operation: str,
        thread_id: str,
        notification_id: str,
        rule: Callable[[NotificationRecord, Sidecar], _Pair | None],
    ) -> bool:
        keys = self._both(thread_id, notification_id)

        def compute(seen: Values) -> Outcome[bool]:
            if seen[0] is None:
                return Outcome(False)
            before = (self._record(seen[0]), sidecar_from_text(seen[1]))
            after = rule(*before)
            if after is None:
                return Outcome(False)
            written = self._written(before, after)
            return Outcome(True, written.commands, written.after)

        return await self._host.change(operation, keys, compute)

    def _both(self, thread_id: str, notification_id: str) -> list[bytes]:
        return [
            self._keys.notification(thread_id, notification_id),
            self._keys.sidecar(thread_id, notification_id),
        ]

    def _record(self, text: bytes) -> NotificationRecord:
        return model_of(NotificationRecord, text, what="a notification")

    def _written(self, before: _Pair | None, after: _Pair) -> Outcome[NotificationRecord]:
        """What writes a pair over another one; the record as it will be read."""
        record, sidecar = after
        record_key, sidecar_key = self._both(record.thread_id, record.id)
        record_text, sidecar_text = encoded(record), sidecar_to_text(sidecar)
        old_record, old_sidecar = before if before is not None else (None, Sidecar())
        commands: list[Command] = []
        if record is not old_record:
            commands.append(("SET", record_key, record_text))
        if sidecar_text is not None:
            commands.append(("SET", sidecar_key, sidecar_text))
        elif not old_sidecar.is_empty:
            commands.append(("DEL", sidecar_key))
        commands += self._index.put(old_record, record, old_sidecar, sidecar)
        return Outcome(_as_read(record), commands, (record_text, sidecar_text))


def _check_claim(owner: str, limit: int, visibility_ms: int) -> None:
    check_text(owner, "owner")
    check_limit(limit)
    check_limit(visibility_ms, "visibility_ms")


def _as_read(record: NotificationRecord) -> NotificationRecord:
    """A written record as it will be read: JSON values of its own."""
    own = {
        name: jsonjs.sanitize_copy(value)
        for name in _JSON
        if (value := getattr(record, name)) is not None
    }
    return record.replace(**own) if own else record


_JSON: Final = ("payload", "attributes", "metadata")
