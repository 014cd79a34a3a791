"""Boundaries that only a look behind the store shows: to the millisecond, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mastra_conformance import case
from mastra_conformance.suites.runtime.inboxes import THREAD, Inbox, due_event
from mastra_core.base.ids import UuidIds
from mastra_core.contracts.storage import PrunePolicy
from mastra_core.plugins.context import AdapterContext
from mastra_core.testing.fake_clock import FakeClock
from mastra_libsql import LibSQLStorage

pytestmark = pytest.mark.anyio

Query = Callable[..., list[tuple[Any, ...]]]


@case("notifications", 35)
async def test_pruning_spares_what_is_exactly_as_old_as_the_limit(path: Path) -> None:
    """Only strictly older records go."""
    clock = FakeClock()
    async with LibSQLStorage(f"file:{path}", AdapterContext(clock=clock)) as store:
        for name, age_ms in (("older", 3_600_001), ("as-old", 3_600_000)):
            created = clock.now() - timedelta(milliseconds=age_ms)
            await store.notifications.create_notification(due_event(name, created_at=created))

        await store.notifications.prune([PrunePolicy(table="notifications", max_age_ms=3_600_000)])

        left = await store.notifications.list_notifications(THREAD)
    assert ["as-old"] == [record.id for record in left]


@case("notifications", 88)
async def test_a_summary_that_fails_at_its_second_member_changes_none(
    path: Path, query: Query
) -> None:
    """The write breaks off in the middle; the retry has the same signal id."""
    clock = FakeClock()
    async with LibSQLStorage(f"file:{path}", AdapterContext(clock=clock)) as store:
        inbox = Inbox(store, clock=clock, ids=UuidIds())
        names = ("n1", "n2", "n3")
        for name in names:
            await inbox.due(name, priority="low", summary_at=clock.now())
        query(
            "CREATE TRIGGER broken BEFORE UPDATE ON mastra_notifications "
            "WHEN NEW.id = 'n2' AND NEW.summarySignalId IS NOT NULL "
            "BEGIN SELECT RAISE(FAIL, 'the disk is gone'); END"
        )

        first = await inbox.dispatch()
        between = [await inbox.record(name) for name in names]
        query("DROP TRIGGER broken")
        await clock.advance(300)
        second = await inbox.dispatch()

    assert {"n1", "n2", "n3"} == {failure.record.id for failure in first.failed}
    assert [("pending", None)] * 3 == [(one.status, one.summary_signal_id) for one in between]
    assert 1 == len({signal.id for signal, _ in inbox.sink.sent})
    assert [inbox.sink.sent[0][0].id] * 3 == [one.summary_signal_id for one in second.delivered]
