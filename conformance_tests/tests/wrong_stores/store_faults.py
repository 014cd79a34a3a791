"""What can be wrong with a store: one mixin per fault, over a domain of the in-memory store.

Each does one thing as a careless adapter would do it, and everything else right.
"""

from __future__ import annotations

import asyncio
import random
import re
from dataclasses import replace
from typing import Any

from mastra_core.base import jsonjs
from mastra_core.contracts.storage import ClaimOutcome, MessagePage
from mastra_core.rules import notification_claims as claims
from mastra_core.rules import notifications as inbox
from mastra_core.rules.snapshots import CLAIM
from mastra_core.wire.notifications import NotificationPatch

__all__ = (
    "AcceptsAnyKey",
    "AcceptsStaleTokens",
    "BumpsOnClaim",
    "ChecksAfterWriting",
    "ChecksThenWrites",
    "ClaimsFromAStaleList",
    "ClaimsTwice",
    "ClearsTimestamps",
    "ClearsWhatIsAbsent",
    "ComparesLoosely",
    "ComparesThenSets",
    "CountsFromAStaleCopy",
    "CountsReleases",
    "CrossesResources",
    "CutsAtNul",
    "DeletesWithoutFilter",
    "Downgrades",
    "DropsUnknownMembers",
    "DropsUnknownParts",
    "ErasesTheResource",
    "FailsTheSeen",
    "FiresTwice",
    "FiresWhilePaused",
    "ForgetsReceipts",
    "ForgetsTheSchedule",
    "ForgetsTheWindow",
    "ForgetsToMerge",
    "GuardsEverything",
    "GuardsMessagesOnly",
    "HidesNothing",
    "IgnoresFences",
    "IgnoresTheScope",
    "IncludesTheEnd",
    "KeepsHistory",
    "KnowsNoStatuses",
    "LeavesTheUpdateTime",
    "ListsByCreation",
    "LooksAtNoRaisedFence",
    "LooksThenInserts",
    "LosesNewEvents",
    "LosesOrder",
    "MatchesPatterns",
    "MergesInMemory",
    "MergesIntoDelivered",
    "MixesKeys",
    "MovesCreationTimes",
    "MovesMessages",
    "NeverFences",
    "NewSignalEachTime",
    "OverwritesOnCreate",
    "OverwritesSchedules",
    "PagesWithOneNumber",
    "RefusesEqualFences",
    "ReplacesMetadata",
    "ReplacesStepResults",
    "RoundsIntegers",
    "SearchesByPattern",
    "SharesMutableState",
    "ShipsTheConversation",
    "ShowsRunsOfAll",
    "SkipsBehindACursor",
    "SortsByTimeAlone",
    "StartsTwice",
    "StoresHalfABatch",
    "SummarizesHalf",
    "TakesZeroForAll",
    "TouchesTheFirstThreadOnly",
    "UpdatesFromAStaleCopy",
    "WritesNullForNan",
)

# Mixins call the right method through super() with whatever they were given.
# mypy: ignore-errors


# -- threads and messages ---------------------------------------------------------------------


class SharesMutableState:
    """Keeps the caller's object and hands it out again."""

    async def save_thread(self, thread: Any) -> Any:
        self._tables.put_thread(thread)
        return thread

    async def get_thread_by_id(self, thread_id: str, **_: Any) -> Any:
        return self._tables.threads.get(thread_id)


class OverwritesOnCreate:
    """Creates by upsert."""

    async def create_thread(self, thread: Any) -> Any:
        return await self.save_thread(thread)


class ReplacesMetadata:
    """Writes metadata whole instead of merging it."""

    async def update_thread(self, thread_id: str, **changes: Any) -> Any:
        if "metadata" in changes:
            thread = self._thread(thread_id)
            self._tables.put_thread(thread.replace(metadata={}))
        return await super().update_thread(thread_id, **changes)


class UpdatesFromAStaleCopy:
    """Reads, waits, and writes back what it read."""

    async def update_thread(self, thread_id: str, **changes: Any) -> Any:
        thread = self._thread(thread_id)
        await asyncio.sleep(0)
        self._tables.put_thread(thread)
        return await super().update_thread(thread_id, **changes)


class MovesCreationTimes:
    """An upsert that replaces the whole row."""

    async def save_messages(self, messages: Any) -> Any:
        for message in messages:
            self._tables.drop_message(message.id)
        return await super().save_messages(messages)


class TouchesTheFirstThreadOnly:
    """Moves the time of the first message's thread."""

    async def save_messages(self, messages: Any) -> Any:
        before = dict(self._tables.threads)
        saved = await super().save_messages(messages)
        for thread_id, thread in before.items():
            if messages and thread_id != messages[0].thread_id:
                self._tables.put_thread(thread)
        return saved


class MovesMessages:
    """Saves a known id into another thread."""

    async def save_messages(self, messages: Any) -> Any:
        for message in messages:
            known = self._tables.messages.get(message.id)
            if known and known.row.thread_id != message.thread_id:
                self._tables.drop_message(message.id)
        return await super().save_messages(messages)


class StoresHalfABatch:
    """Writes message by message."""

    async def save_messages(self, messages: Any) -> Any:
        saved = []
        for message in messages:
            saved += await super().save_messages([message])
        return saved


class IgnoresFences:
    """Writes whatever an owner writes."""

    def guarded(self, fence: Any) -> Any:
        return self


class RefusesEqualFences:
    """Wants every write to have a fence of its own."""

    async def raise_fence(self, fence: Any) -> None:
        await super().raise_fence((fence[0], fence[1] + 1))


class MixesKeys:
    """Has one fence for all threads."""

    def guarded(self, fence: Any) -> Any:
        return super().guarded(("all", fence[1]))

    async def raise_fence(self, fence: Any) -> None:
        await super().raise_fence(("all", fence[1]))


class LooksAtNoRaisedFence:
    """Knows only what writes have carried."""

    async def raise_fence(self, fence: Any) -> None:
        """Remembers nothing."""


class ChecksAfterWriting:
    """Writes, and says too late that it shouldn't have."""

    def guarded(self, fence: Any) -> Any:
        return _ChecksAfterWriting(self, fence)


class _ChecksAfterWriting:
    def __init__(self, memory: Any, fence: Any) -> None:
        self._memory = memory
        self._fence = fence

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._memory, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            result = await method(*args, **kwargs)
            await self._memory.raise_fence(self._fence)
            return result

        return call


class GuardsMessagesOnly:
    """Lets former owners change the thread itself."""

    def guarded(self, fence: Any) -> Any:
        return _GuardsMessagesOnly(self, super().guarded(fence))


class _GuardsMessagesOnly:
    def __init__(self, memory: Any, guarded: Any) -> None:
        self._memory = memory
        self._guarded = guarded

    def __getattr__(self, name: str) -> Any:
        return getattr(self._guarded if name.endswith("messages") else self._memory, name)


class LosesOrder:
    """Returns rows as they come."""

    async def list_messages(self, *arguments: Any, **options: Any) -> MessagePage:
        page = await super().list_messages(*arguments, **options)
        mixed = page.messages[:]
        random.Random(3).shuffle(mixed)
        return replace(page, messages=mixed)


class SortsByTimeAlone:
    """Breaks ties differently each time."""

    async def list_messages(self, *arguments: Any, **options: Any) -> MessagePage:
        rows = list(self._tables.messages.values())
        offset, count = options.get("page", 0) * options["per_page"], options["per_page"]
        tie = random.Random(offset)
        rows.sort(key=lambda row: (row.key[0], tie.random()))
        page = await super().list_messages(*arguments, **options)
        shown = rows[offset : offset + count]
        return replace(page, messages=[row.message() for row in shown])


class CrossesResources:
    """Includes a message whosever it is."""

    def _included(self, include: Any, _: Any) -> Any:
        return super()._included(include, None)


class ForgetsTheWindow:
    """Counts neighbours by time alone, and so loses the message itself."""

    def _included(self, include: Any, resource_id: Any) -> Any:
        rows = super()._included(include, resource_id)
        return rows[1:] if len({row.key[0] for row in rows}) == 1 and len(rows) > 1 else rows


class DropsUnknownParts:
    """Keeps only the parts that it knows."""

    async def save_messages(self, messages: Any) -> Any:
        known = {"text", "tool-invocation", "step-start", "file", "data-x"}
        cleaned = []
        for message in messages:
            parts = [part for part in message.content["parts"] if part["type"] in known]
            cleaned.append(message.replace(content={**message.content, "parts": parts}))
        return await super().save_messages(cleaned)


class AcceptsAnyKey:
    """Puts metadata keys into its query without a look."""

    async def list_threads(self, *, metadata: Any = None, **options: Any) -> Any:
        del metadata
        return await super().list_threads(**options)


# -- snapshots --------------------------------------------------------------------------------


class DropsUnknownMembers:
    """Stores the members of its own model."""

    async def persist_workflow_snapshot(self, *, snapshot: Any, **options: Any) -> None:
        known = {"runId", "status", "context", "value", "activePaths", "requestContext"}
        kept = {key: value for key, value in snapshot.items() if key in known}
        await super().persist_workflow_snapshot(snapshot=kept, **options)


class ErasesTheResource:
    """Writes null over a stored resource."""

    async def persist_workflow_snapshot(
        self, *, workflow_name: str, run_id: str, **options: Any
    ) -> None:
        if options.get("resource_id") is None:
            self._tables.drop((workflow_name, run_id))
        await super().persist_workflow_snapshot(
            workflow_name=workflow_name, run_id=run_id, **options
        )


class ReplacesStepResults:
    """Knows no composing of iteration outputs."""

    async def update_workflow_results(self, *, step_id: str, **options: Any) -> Any:
        row = self._tables.rows.get((options["workflow_name"], options["run_id"]))
        if row is not None:
            document = row.document()
            document["context"].pop(step_id, None)
            self._write(row.key, document, self._clock.now())
        return await super().update_workflow_results(step_id=step_id, **options)


class MergesInMemory:
    """Reads the document, waits, and writes it back whole."""

    async def update_workflow_results(self, **options: Any) -> Any:
        key = (options["workflow_name"], options["run_id"])
        row = self._tables.rows.get(key)
        await asyncio.sleep(0)
        if row is None:
            self._tables.drop(key)
        else:
            self._write(key, row.document(), self._clock.now())
        return await super().update_workflow_results(**options)


class ChecksThenWrites:
    """Looks at the status in one step and writes in another."""

    async def update_workflow_state(self, *, expected_status: Any = None, **options: Any) -> Any:
        row = self._tables.rows.get((options["workflow_name"], options["run_id"]))
        if row is None or (expected_status and row.status != expected_status):
            return None
        await asyncio.sleep(0)
        return await super().update_workflow_state(**options)


class LeavesTheUpdateTime:
    """A change of the state doesn't move ``updated_at``."""

    async def update_workflow_state(self, **options: Any) -> Any:
        key = (options["workflow_name"], options["run_id"])
        before = self._tables.rows.get(key)
        after = await super().update_workflow_state(**options)
        if before is not None and after is not None:
            self._tables.rows[key] = replace(self._tables.rows[key], updated_at=before.updated_at)
        return after


class WritesNullForNan:
    """Encodes as JavaScript does, and loses numbers quietly."""

    async def persist_workflow_snapshot(self, *, snapshot: Any, **options: Any) -> None:
        lenient = jsonjs.decode(jsonjs.encode(snapshot, lenient=True))
        await super().persist_workflow_snapshot(snapshot=lenient, **options)


class RoundsIntegers:
    """Keeps numbers as doubles."""

    async def load_workflow_snapshot(self, **key: Any) -> Any:
        document = await super().load_workflow_snapshot(**key)
        return _rounded(document)


def _rounded(value: Any) -> Any:
    match value:
        case bool():
            return value
        case int():
            return int(float(value))
        case list():
            return [_rounded(item) for item in value]
        case dict():
            return {key: _rounded(item) for key, item in value.items()}
        case _:
            return value


class CutsAtNul:
    """A driver that passes zero-terminated strings."""

    async def load_workflow_snapshot(self, **key: Any) -> Any:
        document = await super().load_workflow_snapshot(**key)
        text = jsonjs.encode(document)
        return jsonjs.decode(re.sub(r"\\u0000[^\"]*", "", text))


class PagesWithOneNumber:
    """Pages as soon as ``per_page`` is given."""

    async def list_workflow_runs(self, *, page: Any = None, **options: Any) -> Any:
        return await super().list_workflow_runs(page=page or 0, **options)


class MatchesPatterns:
    """Puts names into a pattern."""

    async def list_workflow_runs(self, *, workflow_name: Any = None, **options: Any) -> Any:
        page = await super().list_workflow_runs(**options)
        pattern = re.escape(workflow_name or "*").replace(r"\*", ".*").replace(r"\?", ".")
        runs = [run for run in page.runs if re.fullmatch(pattern, run.workflow_name)]
        return page.replace(runs=runs, total=len(runs))


class ShowsRunsOfAll:
    """Forgets whose runs they are."""

    async def list_suspended_runs(self, *, agent_id: str, **options: Any) -> Any:
        agents = {row.projection.agent_id for row in self._tables.rows.values() if row.projection}
        page = await super().list_suspended_runs(agent_id=agent_id, **options)
        for name in sorted(agents - {agent_id, None}):
            page.rows.extend((await super().list_suspended_runs(agent_id=name, **options)).rows)
        return page


class ShipsTheConversation:
    """Projects nothing."""

    async def list_suspended_runs(self, **options: Any) -> Any:
        page = await super().list_suspended_runs(**options)
        rows = [
            replace(
                row,
                steps={
                    name: step.get("suspendPayload")
                    for name, step in self._tables.rows[row.workflow_name, row.run_id]
                    .document()["context"]
                    .items()
                    if step.get("status") == "suspended"
                },
            )
            for row in page.rows
        ]
        return replace(page, rows=rows)


class SkipsBehindACursor:
    """Counts rows from the start instead of comparing with the cursor."""

    async def list_suspended_runs(
        self, *, after: Any = None, page: Any = None, **options: Any
    ) -> Any:
        self.pages = 0 if after is None else getattr(self, "pages", 0) + 1
        return await super().list_suspended_runs(page=self.pages, **options)


class ClaimsTwice:
    """Grants a resume claim to whoever asks."""

    async def claim_resume(self, *, workflow_name: str, run_id: str, claim: Any) -> ClaimOutcome:
        row = self._tables.rows.get((workflow_name, run_id))
        if row is not None and row.status == "running":
            document = {**row.document(), "status": "suspended"}
            document.pop(CLAIM, None)
            self._write(row.key, document, self._clock.now())
        return await super().claim_resume(workflow_name=workflow_name, run_id=run_id, claim=claim)


class NeverFences:
    """Ignores claim ids of writers."""

    def _check_claim(self, key: Any, claim_id: Any) -> None:
        """Lets everybody through."""


class ForgetsReceipts:
    """Replaces the receipt of a call."""

    async def record_receipt(self, *, tool_call_id: str, **options: Any) -> None:
        row = self._tables.rows[options["workflow_name"], options["run_id"]]
        document = row.document()
        document.get("resumeReceipts", {}).pop(tool_call_id, None)
        self._write(row.key, document, self._clock.now())
        await super().record_receipt(tool_call_id=tool_call_id, **options)


# -- the inbox --------------------------------------------------------------------------------


class ForgetsToMerge:
    """Inserts whatever comes."""

    async def create_notification(self, notification: Any, **options: Any) -> Any:
        keys = {"dedupe_key": None, "coalesce_key": None}
        bare = notification.model_copy(update=keys)
        record = await super().create_notification(bare, **options)
        record = self._tables.records[record.thread_id, record.id]
        kept = {name: getattr(notification, name) for name in keys}
        self._tables.put(record.replace(**kept))
        return record.replace(**kept)


class MergesIntoDelivered:
    """Finds the record by its key and doesn't look at the status."""

    async def create_notification(self, notification: Any, **options: Any) -> Any:
        for record in list(self._tables.records.values()):
            if notification.dedupe_key and record.dedupe_key == notification.dedupe_key:
                merged = inbox.merged_record(record, notification, now=self._clock.now())
                self._tables.put(merged)
                return merged
        return await super().create_notification(notification, **options)


class CountsFromAStaleCopy:
    """Reads the count, waits, and writes count + 1."""

    async def create_notification(self, notification: Any, **options: Any) -> Any:
        match = self._tables.match(notification)
        await asyncio.sleep(0)
        if match is not None:
            merged = inbox.merged_record(match, notification, now=self._clock.now())
            self._tables.put(merged)
            return merged
        return await super().create_notification(notification, **options)


class LooksThenInserts:
    """Finds no match, waits, and inserts."""

    async def create_notification(self, notification: Any, **options: Any) -> Any:
        found = self._tables.match(notification)
        await asyncio.sleep(0)
        if found is None:
            record, sidecar = claims.create_guarded(
                notification,
                notification_id=self._ids.new("notification"),
                now=self._clock.now(),
                guard_until=None,
            )
            self._tables.put(record, sidecar)
            return record
        return await super().create_notification(notification, **options)


class IgnoresTheScope:
    """Merges by the key alone."""

    async def create_notification(self, notification: Any, **options: Any) -> Any:
        record = next(iter(self._tables.records.values()), None)
        if record is not None and record.dedupe_key == notification.dedupe_key:
            scope = ("thread_id", "source", "kind", "agent_id", "resource_id")
            notification = notification.model_copy(
                update={name: getattr(record, name) for name in scope}
            )
        return await super().create_notification(notification, **options)


class SearchesByPattern:
    """``%`` and ``_`` as wildcards."""

    async def list_notifications(
        self, thread_id: str, *, search: Any = None, **options: Any
    ) -> Any:
        rows = await super().list_notifications(thread_id, **options)
        pattern = re.escape(search or "").replace("%", ".*").replace("_", ".")
        return [row for row in rows if re.search(pattern, row.summary, re.IGNORECASE)]


class TakesZeroForAll:
    """A limit of 0 is none."""

    async def list_notifications(self, thread_id: str, *, limit: Any = None, **options: Any) -> Any:
        return await super().list_notifications(thread_id, limit=limit or None, **options)


class KnowsNoStatuses:
    """An unknown status is one that no record has."""

    async def list_notifications(
        self, thread_id: str, *, status: Any = None, **options: Any
    ) -> Any:
        rows = await super().list_notifications(thread_id, **options)
        return [row for row in rows if status is None or row.status in status]


class ListsByCreation:
    """The newest created instead of the newest updated."""

    async def list_notifications(self, thread_id: str, **options: Any) -> Any:
        rows = await super().list_notifications(thread_id, **options)
        return sorted(rows, key=lambda row: row.created_at, reverse=True)


class ClearsTimestamps:
    """A status clears the timestamps of the others."""

    async def update_notification(
        self, thread_id: str, name: str, patch: Any, **options: Any
    ) -> Any:
        if patch.status:
            record = self._tables.records[thread_id, name]
            cleared = dict.fromkeys(inbox.STATUS_TIMESTAMPS.values())
            self._tables.put(record.replace(**cleared))
        return await super().update_notification(thread_id, name, patch, **options)


class ClearsWhatIsAbsent:
    """Takes an absent member for None."""

    async def update_notification(
        self, thread_id: str, name: str, patch: Any, **options: Any
    ) -> Any:
        full = NotificationPatch(
            **{"deliver_at": None, "summary_at": None, **patch.model_dump(exclude_unset=True)}
        )
        return await super().update_notification(thread_id, name, full, **options)


class Downgrades:
    """Marks delivered whatever the status is."""

    async def mark_notification_delivered(self, thread_id: str, name: str, **facts: Any) -> Any:
        record = self._tables.records.get((thread_id, name))
        if record is not None:
            self._tables.put(record.replace(status="pending"))
        return await super().mark_notification_delivered(thread_id, name, **facts)


class BumpsOnClaim:
    """A claim moves ``updated_at``."""

    async def claim_due(self, *arguments: Any, **options: Any) -> Any:
        got = await super().claim_due(*arguments, **options)
        for claim in got:
            record = self._tables.records[claim.record.thread_id, claim.record.id]
            self._tables.put(record.replace(updated_at=self._clock.now()))
        return got


class HidesNothing:
    """A claim leaves the schedule, so plain listing still shows the record."""

    async def claim_due(self, *arguments: Any, **options: Any) -> Any:
        got = await super().claim_due(*arguments, **options)
        for claim in got:
            record = self._tables.records[claim.record.thread_id, claim.record.id]
            original = {n: getattr(claim.record, n) for n in ("deliver_at", "summary_at")}
            self._tables.put(record.replace(**original))
        return got


class ClaimsFromAStaleList:
    """Lists what is due, waits, and claims it without looking again."""

    async def claim_due(self, now: Any, owner: str, *, limit: int = 100, **options: Any) -> Any:
        listed = list(self._tables.due(now))[:limit]
        await asyncio.sleep(0)
        for record in listed:
            key = (record.thread_id, record.id)
            self._tables.put(record)
            sidecar = self._tables.sidecar(key)
            self._tables.put_sidecar(key, replace(sidecar, owner=None))
        return await super().claim_due(now, owner, limit=limit, **options)


class NewSignalEachTime:
    """A random signal id per claim."""

    async def claim_due(self, *arguments: Any, **options: Any) -> Any:
        got = await super().claim_due(*arguments, **options)
        return [replace(claim, signal_id=self._ids.new("signal")) for claim in got]


class AcceptsStaleTokens:
    """Doesn't compare tokens."""

    def _current(self, ref: Any) -> Any:
        return self._tables.records.get((ref.thread_id, ref.notification_id))


class ForgetsTheSchedule:
    """Leaves the moved columns after a delivery."""

    async def finalize_full(self, ref: Any, **facts: Any) -> Any:
        record = self._tables.records.get((ref.thread_id, ref.notification_id))
        done = await super().finalize_full(ref, **facts)
        if done is None or record is None:
            return done
        moved = done.replace(deliver_at=record.deliver_at)
        self._tables.put(moved)
        return moved


class LosesNewEvents:
    """Delivers a record though an event came in during the send."""

    async def finalize_full(self, ref: Any, **facts: Any) -> Any:
        key = (ref.thread_id, ref.notification_id)
        if record := self._tables.records.get(key):
            sidecar = self._tables.sidecar(key)
            self._tables.put_sidecar(key, replace(sidecar, claimed_count=record.coalesced_count))
        return await super().finalize_full(ref, **facts)


class SummarizesHalf:
    """Finalises member by member."""

    async def finalize_summary(self, refs: Any, **facts: Any) -> Any:
        done = True
        for ref in refs:
            done &= await super().finalize_summary([ref], **facts)
        return done


class FailsTheSeen:
    """Counts a failure whatever the status is."""

    async def fail_claims(self, refs: Any, **facts: Any) -> Any:
        for ref in refs:
            record = self._tables.records[ref.thread_id, ref.notification_id]
            self._tables.put(record.replace(status="pending"))
        return await super().fail_claims(refs, **facts)


class OverwritesSchedules:
    """Restores what it remembers, whoever set something meanwhile."""

    async def release_claims(self, refs: Any, **options: Any) -> Any:
        for ref in refs:
            key = (ref.thread_id, ref.notification_id)
            record, sidecar = self._tables.records[key], self._tables.sidecar(key)
            self._tables.put(record.replace(deliver_at=sidecar.expires_at))
        return await super().release_claims(refs, **options)


class CountsReleases:
    """Counts an attempt for a claim that was given back."""

    async def release_claims(self, refs: Any, **options: Any) -> Any:
        released = await super().release_claims(refs, **options)
        for ref in refs:
            record = self._tables.records[ref.thread_id, ref.notification_id]
            self._tables.put(record.replace(delivery_attempts=record.delivery_attempts + 1))
        return released


class GuardsEverything:
    """Writes the guard over a real schedule."""

    async def create_notification(
        self, notification: Any, *, guard_until: Any = None, **options: Any
    ) -> Any:
        if guard_until is not None:
            notification = notification.model_copy(update={"deliver_at": guard_until})
        return await super().create_notification(notification, **options)


# -- state, tasks, timers ---------------------------------------------------------------------


class ComparesLoosely:
    """Python's equality: ``True == 1``."""

    async def compare_and_set(
        self, thread_id: str, kind: str, *, expected: Any, value: Any
    ) -> bool:
        if await self.get_state(thread_id, kind) != expected:
            return False
        await self.set_state(thread_id, kind, value)
        return True


class ComparesThenSets:
    """Two steps with a wait between them."""

    async def compare_and_set(
        self, thread_id: str, kind: str, *, expected: Any, value: Any
    ) -> bool:
        if await self.get_state(thread_id, kind) != expected:
            return False
        await asyncio.sleep(0)
        await self.set_state(thread_id, kind, value)
        return True


class StartsTwice:
    """Ignores the expected status."""

    async def update_task(self, task_id: str, patch: Any, **_: Any) -> bool:
        return await super().update_task(task_id, patch)


class DeletesWithoutFilter:
    """An empty filter matches everything."""

    async def delete_tasks(self, task_filter: Any) -> int:
        ids = [task.id for task in self._matching(task_filter)]
        return sum(map(self._tables.drop, ids))


class IncludesTheEnd:
    """Takes ``to_date`` for inclusive."""

    def _matching(self, task_filter: Any) -> Any:
        if task_filter.to_date is not None:
            task_filter = replace(
                task_filter, to_date=task_filter.to_date.replace(microsecond=999_000)
            )
        return super()._matching(task_filter)


class FiresTwice:
    """Moves the next fire time whatever it is."""

    async def update_schedule_next_fire(self, schedule_id: str, **options: Any) -> bool:
        schedule = self._tables.schedules.get(schedule_id)
        if schedule is not None:
            options["expected_next_fire_at"] = schedule.next_fire_at
        return await super().update_schedule_next_fire(schedule_id, **options)


class FiresWhilePaused:
    """Lists paused timers as due."""

    async def list_due_schedules(self, now_ms: int, **_: Any) -> Any:
        found = self._tables.schedules.values()
        return [schedule for schedule in found if schedule.next_fire_at <= now_ms]


class KeepsHistory:
    """Deletes a timer without its history."""

    async def delete_schedule(self, schedule_id: str) -> bool:
        schedule = self._tables.schedules.pop(schedule_id, None)
        return schedule is not None
