"""Pages of the libSQL store in databases of several sizes, against the smallest of them.

The page is the same everywhere, so its cost should be, too: it must depend on what is shown
and not on what is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from contents import NOW, event, message, suspended
from harness import Goal, Scenario

from mastra_libsql import LibSQLStorage

__all__ = ("open_scenarios",)

GOAL = Goal(kind="at most times", value=1.5)


@asynccontextmanager
async def open_scenarios(
    folder: Path, *, sizes: Sequence[int]
) -> AsyncIterator[AsyncIterator[Scenario]]:
    """The scenarios, on files in a folder; sizes are rows of each of three tables."""
    async with AsyncExitStack() as stack:
        stores: dict[int, LibSQLStorage] = {}
        for size in sorted(sizes):
            store = LibSQLStorage(f"file:{folder / f'rows{size}.db'}")
            stores[size] = await stack.enter_async_context(store)
            await _fill(store, size)
        yield _scenarios(stores)


async def _scenarios(stores: dict[int, LibSQLStorage]) -> AsyncIterator[Scenario]:
    smallest, *larger = stores
    for name, page in _pages().items():
        for size in larger:
            yield Scenario(
                name=f"{name}, {size} rows against {smallest}",
                backend="libsql file",
                ours=lambda page=page, size=size: page(stores[size]),  # type: ignore[misc]
                floor=lambda page=page: page(stores[smallest]),  # type: ignore[misc]
                against=f"{smallest} rows",
                goal=GOAL,
                calls=60,
            )


def _pages() -> dict[str, Callable[[LibSQLStorage], Any]]:
    return {
        "inbox page": lambda s: s.notifications.list_notifications("thread7", limit=20),
        "due page": lambda s: s.notifications.list_due_notifications(NOW, limit=20),
        "suspended runs page": lambda s: s.workflows.list_suspended_runs(
            workflow_names=["agentic-loop", "durable-agentic-loop"],
            agent_id="agent7",
            page=0,
            per_page=20,
        ),
        "history page": lambda s: s.memory.list_messages("thread7", per_page=40),
    }


async def _fill(store: LibSQLStorage, rows: int) -> None:
    """Rows in each of three tables; every thread and agent has about fifty of them."""
    groups = max(10, rows // 50)
    for start in range(0, rows, 500):
        numbers = range(start, min(rows, start + 500))
        await asyncio.gather(
            *(
                store.notifications.create_notification(
                    event(
                        f"thread{n % groups}", deliver_at=NOW if n < 40 else NOW + timedelta(days=n)
                    )
                )
                for n in numbers
            ),
            store.workflows.persist_workflow_snapshots(
                [
                    {
                        "workflow_name": "agentic-loop",
                        "run_id": f"run{n}",
                        "snapshot": suspended(f"agent{n % groups}", f"thread{n % groups}"),
                        "created_at": NOW + timedelta(seconds=n),
                    }
                    for n in numbers
                ]
            ),
            store.memory.save_messages([message(f"thread{n % groups}") for n in numbers]),
        )
