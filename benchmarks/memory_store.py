"""The in-memory store: how long a call takes, absolutely. Inputs are ready-made."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from contents import document, event, message
from harness import Goal, Scenario, Timed

from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.wire.notifications import NotificationPatch

__all__ = ("open_scenarios",)

BACKEND = "memory"
GOAL = Goal(kind="at most microseconds", value=30)


@asynccontextmanager
async def open_scenarios() -> AsyncIterator[AsyncIterator[Scenario]]:
    """The scenarios on a store of their own."""
    async with InMemoryStorage() as store:
        yield _scenarios(store)


async def _scenarios(store: InMemoryStorage) -> AsyncIterator[Scenario]:
    inbox, runs, memory = store.notifications, store.workflows, store.memory
    record = await inbox.create_notification(event())
    small = document(2)
    large = document(50)
    await runs.persist_workflow_snapshot(workflow_name="w", run_id="2", snapshot=small)
    await runs.persist_workflow_snapshot(workflow_name="w", run_id="50", snapshot=large)
    await memory.save_messages([message("history") for _ in range(40)])
    events = iter([event() for _ in range(20_000)])
    ones = iter([[message()] for _ in range(20_000)])
    tens = iter([[message() for _ in range(10)] for _ in range(10_000)])
    seen = NotificationPatch(status="seen")
    calls: dict[str, Any] = {
        "notification create": lambda: inbox.create_notification(next(events)),
        "notification get": lambda: inbox.get_notification("thread", record.id),
        "notification update": lambda: inbox.update_notification("thread", record.id, seen),
        "snapshot persist 2 KB": lambda: runs.persist_workflow_snapshot(
            workflow_name="w", run_id="2", snapshot=small
        ),
        "snapshot load 2 KB": lambda: runs.load_workflow_snapshot(workflow_name="w", run_id="2"),
        "snapshot persist 50 KB": lambda: runs.persist_workflow_snapshot(
            workflow_name="w", run_id="50", snapshot=large
        ),
        "snapshot load 50 KB": lambda: runs.load_workflow_snapshot(workflow_name="w", run_id="50"),
        "message save 1": lambda: memory.save_messages(next(ones)),
        "message save 10": lambda: memory.save_messages(next(tens)),
        "history page of 40": lambda: memory.list_messages("history", per_page=40),
    }
    for name, call in calls.items():
        yield Scenario(name=name, backend=BACKEND, ours=Timed(call), goal=GOAL, calls=200)
