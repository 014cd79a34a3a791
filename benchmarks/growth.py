"""Pages of databases of several sizes, against the smallest of them.

The page is the same everywhere, so its cost should be, too: it must depend on what is shown
and not on what is stored.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

from contents import NOW
from goals import goal_of
from harness import Scenario, Timed
from loading import SECOND_S, filled
from places import Place

__all__ = ("open_growth",)

#: Until then so many notifications are due, whatever the size.
_DUE = NOW + timedelta(seconds=39 * SECOND_S)


@asynccontextmanager
async def open_growth(
    place: Place, *, sizes: Sequence[int]
) -> AsyncIterator[AsyncIterator[Scenario]]:
    """The scenarios in one place; sizes are rows of each of three tables."""
    async with AsyncExitStack() as stack:
        stores: dict[int, Any] = {}
        for size in sorted(sizes):
            began = time.perf_counter()
            open_store = await filled(place.backend, place.url, size)
            stores[size] = await stack.enter_async_context(open_store())
            seconds = time.perf_counter() - began
            print(f"… {place.backend}: {size} rows written in {seconds:.0f} s", file=sys.stderr)
        yield _scenarios(place.backend, stores)


async def _scenarios(backend: str, stores: dict[int, Any]) -> AsyncIterator[Scenario]:
    smallest, *larger = stores
    for name, (page, rows) in _PAGES.items():
        for size, store in stores.items():
            found = rows(await page(store))
            if found != _SHOWN:
                raise AssertionError(f"{backend}, {size} rows: {name} has {found} of {_SHOWN}.")
        for size in larger:
            yield Scenario(
                name=f"{name}, {size} rows",
                backend=backend,
                ours=Timed(lambda page=page, size=size: page(stores[size])),  # type: ignore[misc]
                floor=Timed(lambda page=page: page(stores[smallest])),  # type: ignore[misc]
                against=f"{smallest} rows",
                goal=goal_of("growth", backend),
                calls=40,
            )


#: Rows on every page, so that it costs the same wherever it is.
_SHOWN = 20


async def _claim(store: Any) -> Any:
    claims = await store.notifications.claim_due(_DUE, "bench", limit=_SHOWN, visibility_ms=60_000)
    await store.notifications.release_claims([claim.ref for claim in claims])
    return claims


_PAGES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], int]]] = {
    "inbox page": (lambda s: s.notifications.list_notifications("thread7", limit=_SHOWN), len),
    "due page": (lambda s: s.notifications.list_due_notifications(_DUE, limit=_SHOWN), len),
    "due claims": (_claim, len),
    "suspended runs page of an agent": (
        lambda s: s.workflows.list_suspended_runs(
            workflow_names=["agentic-loop", "durable-agentic-loop"],
            agent_id="agent7",
            page=0,
            per_page=_SHOWN,
        ),
        lambda page: len(page.rows),
    ),
    "history page": (
        lambda s: s.memory.list_messages("thread7", per_page=_SHOWN),
        lambda page: len(page.messages),
    ),
}
