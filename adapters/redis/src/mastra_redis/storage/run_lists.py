"""Lists of runs in Redis (snapshots.md 5.5, 5.6, 8, G7): through our index, never a scan."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal, Protocol

from mastra_core.base.isotime import epoch_ms
from mastra_core.contracts.storage.memory import DateRange
from mastra_core.contracts.storage.workflows import SuspendedRunPage, SuspendedRunRow
from mastra_core.rules import suspended
from mastra_core.rules.arguments import check_limit, check_text, moment
from mastra_core.rules.paging import Page, bounds_ms, cursor_page, optional_page
from mastra_core.wire.snapshots import WorkflowRun, WorkflowRuns
from mastra_redis.keys import Keys, join, split
from mastra_redis.link import Argument
from mastra_redis.storage.host import Host
from mastra_redis.storage.run_foreign import ForeignRuns
from mastra_redis.storage.run_records import (
    Record,
    place_of,
    record_from_text,
    suspended_from_lines,
    token,
)

__all__ = ("RunLists",)

#: How many runs one script hands out.
_PORTION: Final = 500
#: How often a page is read again after stale entries were put right.
_TRIES: Final = 5


class _Loads(Protocol):
    async def __call__(
        self, *, workflow_name: str, run_id: str, with_version: bool = False
    ) -> WorkflowRun | None: ...


class RunLists:
    """The part of the workflows domain that only reads."""

    _host: Host
    _keys: Keys
    _foreign: ForeignRuns
    load_workflow_run: _Loads

    async def list_workflow_runs(
        self,
        *,
        workflow_name: str | None = None,
        from_date: datetime | None = None,
        to_date: datetime | None = None,
        page: int | None = None,
        per_page: int | Literal[False] | None = None,
        resource_id: str | None = None,
        thread_id: str | None = None,
        status: str | None = None,
    ) -> WorkflowRuns:
        """Rows, newest created first; one filter costs the page, several the smallest list."""
        place = optional_page(page, per_page, store=self._host.name, operation="list_workflow_runs")
        bounds = _scores(from_date, to_date)
        order, is_exact = _order(workflow_name, status, resource_id, thread_id)
        records, total = await self._foreign.fresh(
            "list_workflow_runs",
            lambda: self._records(order, bounds, place if is_exact else None),
        )
        if is_exact:
            return WorkflowRuns(runs=[record.run() for record in records], total=total)
        found = [
            record
            for record in records
            if (not workflow_name or record.workflow_name == workflow_name)
            and (resource_id is None or record.resource_id == resource_id)
            and _has(record, status=status, thread_id=thread_id)
        ]
        shown = found if place is None else found[place.offset : place.end]
        return WorkflowRuns(runs=[record.run() for record in shown], total=len(found))

    async def _records(
        self, order: bytes, bounds: tuple[Argument, Argument], place: Page | None
    ) -> tuple[list[Record], int]:
        """Records of one order; those that are gone are taken out of it."""
        for _ in range(_TRIES):
            records: list[Record] = []
            gone: list[bytes] = []
            offset = 0 if place is None else place.offset
            left = None if place is None else place.limit
            total = 0
            while left is None or left > 0 or total == 0:
                count = _PORTION if left is None else min(left, _PORTION)
                answer = await self._script(
                    "list_workflow_runs", "run_page", [*bounds, offset, count, order]
                )
                total, pairs = answer[0], answer[1:]
                for member, text in zip(pairs[::2], pairs[1::2], strict=True):
                    if text is None:
                        gone.append(member)
                    else:
                        records.append(record_from_text(text))
                offset += len(pairs) // 2
                left = None if left is None else left - len(pairs) // 2
                if len(pairs) // 2 < count or count == 0:
                    break
            if not gone:
                return records, total
            await self._foreign.forget_gone(gone)
        return records, total

    async def list_suspended_runs(
        self,
        *,
        workflow_names: Sequence[str],
        agent_id: str,
        thread_id: str | None = None,
        resource_id: str | None = None,
        from_date: datetime | None = None,
        to_date: datetime | None = None,
        page: int | None = None,
        per_page: int | None = None,
        after: tuple[datetime, str] | None = None,
    ) -> SuspendedRunPage:
        """Suspended rows of one agent, newest created first; no document is read."""
        check_text(agent_id, "agent_id")
        place = cursor_page(
            page,
            per_page,
            has_cursor=after is not None,
            store=self._host.name,
            operation="list_suspended_runs",
        )
        names = list(dict.fromkeys(workflow_names))
        if not names:
            return SuspendedRunPage(rows=[], total=0)
        bounds = _scores(from_date, to_date)
        behind: list[Argument] = ["", ""]
        if after is not None:
            behind = [epoch_ms(moment(after[0], "after")), join(after[1])[:-2]]
        orders = [_suspended_order(name, agent_id, thread_id, resource_id) for name in names]
        both = thread_id is not None and resource_id is not None
        if both:
            return await self._suspended_of_both(bounds, behind, orders, place, resource_id)
        limits: list[Argument] = [0, -1]
        if place is not None:
            limits = [place.offset, -1 if place.limit is None else place.limit]
        total, rows = await self._suspended([*bounds, *limits, *behind, *orders])
        return SuspendedRunPage(rows=rows, total=total)

    async def _suspended_of_both(
        self,
        bounds: tuple[Argument, Argument],
        behind: list[Argument],
        orders: list[bytes],
        place: Page | None,
        resource_id: str | None,
    ) -> SuspendedRunPage:
        """A thread's runs that also belong to a resource: few, so all of them are looked at."""
        _, rows = await self._suspended([*bounds, 0, -1, "", "", *orders])
        matching = [row for row in rows if row.resource_id == resource_id]
        total = len(matching)
        if behind[0] != "":
            _, rows = await self._suspended([*bounds, 0, -1, *behind, *orders])
            matching = [row for row in rows if row.resource_id == resource_id]
        shown = matching if place is None else matching[place.offset : place.end]
        return SuspendedRunPage(rows=shown, total=total)

    async def _suspended(self, args: list[Argument]) -> tuple[int, list[SuspendedRunRow]]:
        return await self._foreign.fresh("list_suspended_runs", lambda: self._parked(args))

    async def _parked(self, args: list[Argument]) -> tuple[int, list[SuspendedRunRow]]:
        """The page as the index knows it; entries that are stale are put right first."""
        for _ in range(_TRIES):
            answer = await self._script("list_suspended_runs", "run_suspended", args)
            rows, stale = [], []
            triples = zip(answer[1::3], answer[2::3], answer[3::3], strict=True)
            for member, known, projection in triples:
                if projection:
                    rows.append(suspended_from_lines(split(member), known, projection))
                else:
                    stale.append(member)
            if not stale:
                break
            await self._foreign.look_again(stale)
        return int(answer[0]), rows

    async def list_corrupt_runs(self, *, limit: int = 100) -> list[WorkflowRun]:
        """Rows of somebody else whose document doesn't parse."""
        check_limit(limit)
        return await self._foreign.fresh("list_corrupt_runs", lambda: self._foreign.corrupt(limit))

    async def get_workflow_run_by_id(
        self, *, run_id: str, workflow_name: str | None = None
    ) -> WorkflowRun | None:
        """The row; without a name the newest with that run id."""
        if not run_id:
            return None
        if workflow_name is not None:
            return await self.load_workflow_run(workflow_name=workflow_name, run_id=run_id)
        # All members of the run start alike; none of another one does.
        first = join(run_id)
        members = await self._foreign.fresh(
            "get_workflow_run_by_id",
            lambda: self._host.read(
                "get_workflow_run_by_id",
                "ZRANGEBYLEX",
                self._keys.runs + b"ids",
                b"[" + first,
                b"(" + first[:-1] + b"\x02",
            ),
        )
        runs = [
            run
            for member in members
            if (run := await self.load_workflow_run(
                workflow_name=split(member)[1], run_id=run_id)) is not None
        ]  # fmt: skip
        return max(runs, key=lambda run: (run.created_at, run.workflow_name), default=None)

    async def _older_than(self, limit: str, is_suspended: bool) -> list[bytes]:  # noqa: FBT001
        """Members of runs last written before that time, suspended ones or all others."""
        wanted = limit.encode()
        members = await self._host.read("prune", "ZRANGE", self._keys.runs + b"all", 0, -1)
        old: list[bytes] = []
        for first in range(0, len(members), _PORTION):
            batch = members[first : first + _PORTION]
            names = [place_of(name, run_id) for run_id, name in map(split, batch)]
            rows, parked = await self._host.read_all(
                "prune",
                [
                    ("HMGET", self._keys.runs + b"rows", *names),
                    ("HMGET", self._keys.runs + b"suspended", *names),
                ],
            )
            for member, row, projection in zip(batch, rows, parked, strict=True):
                if row is None or (projection is not None) != is_suspended:
                    continue
                if row.split(b"\n", 3)[2] < wanted:
                    old.append(member)
        return old[::-1]

    async def _script(self, operation: str, name: str, args: Sequence[Argument]) -> Any:
        return await self._host.script(
            operation, name, (), [self._keys.snapshots, self._keys.runs, *args], repeatable=True
        )


def _scores(start: datetime | None, end: datetime | None) -> tuple[Argument, Argument]:
    low, high = bounds_ms(DateRange(start=start, end=end))
    return ("-inf" if low is None else low, "+inf" if high is None else high - 1)


def _order(
    workflow_name: str | None, status: str | None, resource_id: str | None, thread_id: str | None
) -> tuple[bytes, bool]:
    """The order that is likely the shortest, and whether it is the whole answer."""
    given = [value for value in (workflow_name, status, resource_id, thread_id) if value]
    if thread_id:
        return b"thread:" + token(thread_id), len(given) == 1
    if resource_id:
        return b"resource:" + token(resource_id), len(given) == 1
    if workflow_name and status:
        return b"name:" + token(workflow_name) + b":status:" + token(status), True
    if workflow_name:
        return b"name:" + token(workflow_name), True
    if status:
        return b"status:" + token(status), True
    return b"all", True


def _has(record: Record, *, status: str | None, thread_id: str | None) -> bool:
    if not status and thread_id is None:
        return True
    document = record.document
    if document is None:
        return False
    return (not status or document.get("status") == status) and (
        thread_id is None or suspended.matches_thread(document, thread_id)
    )


def _suspended_order(
    workflow_name: str, agent_id: str, thread_id: str | None, resource_id: str | None
) -> bytes:
    own = b"agent:" + token(workflow_name) + token(agent_id)
    if thread_id is not None:
        return own + b":thread:" + token(thread_id)
    if resource_id is not None:
        return own + b":resource:" + token(resource_id)
    return own
