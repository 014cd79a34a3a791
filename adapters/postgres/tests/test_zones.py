"""Rows whose writer ran in another zone: the twin with its zone decides."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from mastra_conformance import case
from mastra_postgres import PostgresStorage

__all__ = ()

pytestmark = pytest.mark.anyio

WRITTEN = datetime(2026, 7, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@case("snapshots", 45)
async def test_bounds_go_by_the_instant_and_not_by_the_wall_clock_of_its_writer(
    store: PostgresStorage, url: str
) -> None:
    """A Node process in Tokyo writes nine hours more into the naive column."""
    await store.workflows.persist_workflow_snapshot(
        workflow_name="agentic-loop",
        run_id="r",
        snapshot={"runId": "r", "status": "suspended", "value": {}, "context": {}},
        created_at=WRITTEN,
        updated_at=WRITTEN,
    )
    with psycopg.connect(url, autocommit=True) as connection:
        changed = connection.execute(
            b"""UPDATE mastra_workflow_snapshot SET "createdAt" = '2026-07-01 21:00:00' """
            b"""RETURNING "createdAtZ" """
        )
        assert changed.fetchall() == [(WRITTEN,)]

    around = await store.workflows.list_workflow_runs(
        from_date=WRITTEN - MINUTE, to_date=WRITTEN + MINUTE
    )
    later = await store.workflows.list_workflow_runs(from_date=WRITTEN + MINUTE)

    assert [("r", WRITTEN)] == [(run.run_id, run.created_at) for run in around.runs]
    assert [] == list(later.runs)
