"""The stored messages of a thread, for who begins to follow it (signals.md 12.12)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mastra_core.agent.memory import AgentMemory
from mastra_core.contracts.storage import OrderBy
from mastra_core.errors import RunArgumentError, shown
from mastra_core.threads.history import HISTORY_PAGE, HistoryPage

__all__ = ("thread_history",)


def thread_history(
    find_memory: Callable[[], AgentMemory | None],
    thread_id: str,
    resource_id: str | None,
    *,
    wanted: bool | Mapping[str, Any],
) -> Callable[[], Awaitable[HistoryPage]] | None:
    """
    What reads the newest messages; None if they aren't wanted.

    Raises:
        RunArgumentError: It isn't True, False or ``{"per_page": n}``.
    """
    if wanted is False or wanted is None:
        return None
    per_page = HISTORY_PAGE if wanted is True else _per_page(wanted)

    async def load() -> HistoryPage:
        memory = find_memory()
        if memory is None:
            return HistoryPage()
        page = await memory.store.list_messages(
            thread_id,
            resource_id=resource_id,
            per_page=per_page,
            order_by=OrderBy(field="createdAt", direction="DESC"),
        )
        return HistoryPage(messages=list(reversed(page.messages)), has_more=page.has_more)

    return load


def _per_page(wanted: object) -> int:
    given = dict(wanted) if isinstance(wanted, Mapping) else {}
    count = given.pop("per_page", HISTORY_PAGE) if isinstance(wanted, Mapping) else None
    if given or not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise RunArgumentError(
            f"with_initial_history is True, False or {{'per_page': n}}, not {shown(wanted)}.",
            id="AGENT_INVALID_TARGET",
        )
    return count
