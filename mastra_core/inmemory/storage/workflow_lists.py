"""Lists of runs of the in-memory store (snapshots.md 5.5, 5.6, 8, G7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Literal

from mastra_core.base.isotime import epoch_ms
from mastra_core.base.pace import Pace
from mastra_core.contracts.storage.memory import DateRange
from mastra_core.contracts.storage.workflows import SuspendedRunPage
from mastra_core.inmemory.storage.sorted_keys import SortedKeys
from mastra_core.inmemory.storage.workflow_tables import (
    Row,
    RunKey,
    WorkflowTables,
    copy_of_projection,
)
from mastra_core.rules import suspended
from mastra_core.rules.arguments import check_limit, check_text, moment
from mastra_core.rules.paging import Page, bounds_ms, cursor_page, optional_page
from mastra_core.wire.snapshots import WorkflowRun, WorkflowRuns

__all__ = ("RunLists",)


class RunLists:
    """The part of the workflows domain that only reads."""

    _pace: Pace
    _tables: WorkflowTables

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
        """Rows, newest created first; by name and status it costs the page."""
        await self._pace.turn()
        place = optional_page(page, per_page, store="inmemory", operation="list_workflow_runs")
        keys = self._tables.listed(workflow_name, status)
        bounds = bounds_ms(DateRange(start=from_date, end=to_date))
        start, stop = _positions(keys, bounds)
        if resource_id is None and thread_id is None:
            total = stop - start
            rows = [self._row(key) for key in _page(keys, start, stop, place)]
        else:
            found = [
                row
                for row in map(self._row, keys.descending(start, stop))
                if (resource_id is None or row.resource_id == resource_id)
                and (thread_id is None or suspended.matches_thread(row.document(), thread_id))
            ]
            total = len(found)
            rows = found if place is None else found[place.offset : place.end]
        return WorkflowRuns(runs=[row.run() for row in rows], total=total)

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
        await self._pace.turn()
        check_text(agent_id, "agent_id")
        place = cursor_page(
            page,
            per_page,
            has_cursor=after is not None,
            store="inmemory",
            operation="list_suspended_runs",
        )
        bounds = bounds_ms(DateRange(start=from_date, end=to_date))
        runs = [
            (keys, *_positions(keys, bounds))
            for name in dict.fromkeys(workflow_names)
            if (keys := self._tables.suspended(name, agent_id, thread_id, resource_id))
        ]
        both = thread_id is not None and resource_id is not None
        total = sum(stop - start for _, start, stop in runs)
        if both:
            total = sum(1 for _ in self._matching(runs, resource_id))
        if after is not None:
            behind = (epoch_ms(moment(after[0], "after")), after[1])
            runs = [(keys, start, min(stop, keys.rank(behind))) for keys, start, stop in runs]
        rows = self._matching(runs, resource_id if both else None)
        shown = rows if place is None else islice(rows, place.offset, place.end)
        return SuspendedRunPage(
            rows=[copy_of_projection(row.projection) for row in shown if row.projection],
            total=total,
        )

    async def list_corrupt_runs(self, *, limit: int = 100) -> list[WorkflowRun]:
        """None: every document here was encoded by us."""
        check_limit(limit)
        return []

    async def get_workflow_run_by_id(
        self, *, run_id: str, workflow_name: str | None = None
    ) -> WorkflowRun | None:
        """The row; without a name the newest with that run id."""
        await self._pace.turn()
        names = (
            sorted(self._tables.names_of_run.get(run_id, ()))
            if workflow_name is None
            else [workflow_name]
        )
        rows = [row for name in names if (row := self._tables.rows.get((name, run_id)))]
        newest = max(rows, key=lambda row: row.run_key, default=None)
        return None if newest is None else newest.run()

    def _matching(
        self, runs: list[tuple[SortedKeys[RunKey], int, int]], resource_id: str | None
    ) -> Iterator[Row]:
        keys = merge(*(keys.descending(start, stop) for keys, start, stop in runs), reverse=True)
        for key in keys:
            row = self._row(key)
            if resource_id is None or (
                row.projection is not None and row.projection.resource_id == resource_id
            ):
                yield row

    def _row(self, key: RunKey) -> Row:
        return self._tables.rows[key[2], key[1]]


def _positions(keys: SortedKeys[RunKey], bounds: tuple[int | None, int | None]) -> tuple[int, int]:
    low, high = bounds
    start = 0 if low is None else keys.rank((low,))
    stop = len(keys) if high is None else keys.rank((high,))
    return start, max(start, stop)


def _page(keys: SortedKeys[RunKey], start: int, stop: int, place: Page | None) -> Iterator[RunKey]:
    """Keys of the page, newest first, among the positions ``start`` … ``stop - 1``."""
    if place is None or place.end is None:
        return keys.descending(start, stop)
    last = max(start, stop - place.offset)
    return keys.descending(max(start, stop - place.end), last)
