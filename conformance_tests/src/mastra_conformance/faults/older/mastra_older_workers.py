"""What a process of an earlier version does; uses only what every version has.

Not imported here: it lies beside the packages of that version on the path of a second process.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import mastra_core
from mastra_core.wire.events import Event
from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import CreateNotification
from mastra_core.wire.threads import Thread

__all__ = ("contend", "keep_house", "trade")

_THEN = datetime(2024, 3, 1, tzinfo=UTC)
_TURNS = 30


async def keep_house(context: Any) -> dict[str, Any]:
    """Write a thread with messages and a notification, then read what the newer one wrote."""
    async with context.open_store() as store:
        await store.memory.save_thread(
            Thread(id="old", resource_id="r1", title="Old", created_at=_THEN, updated_at=_THEN)
        )
        await store.notifications.create_notification(
            CreateNotification(
                id="n-old", thread_id="old", source="ci", kind="build", summary="from the old"
            )
        )
        await context.reach("written", mastra_core.__file__)
        for number in range(_TURNS):
            await store.memory.save_messages([_message(f"old-{number}")])
            await store.thread_state.compare_and_set("s", "x", expected=None, value="old")
            await asyncio.sleep(0)
        await context.reach("all written")
        page = await store.memory.list_messages("shared", per_page=False)
        thread = await store.memory.get_thread_by_id("new")
        inbox = await store.notifications.list_notifications("new")
        return {
            "messages": sorted(row.id for row in page.messages),
            "title": thread and thread.title,
            "inbox": [row.summary for row in inbox],
        }


async def trade(context: Any) -> list[Any]:
    """Publish some events and return all that came."""
    seen: list[Any] = []
    complete = asyncio.Event()

    def handle(event: Event) -> None:
        seen.append(event.data)
        if len(seen) >= 2 * _TURNS:
            complete.set()

    async with context.open_pubsub() as bus:
        await bus.subscribe("t", handle, start_from="latest")
        await context.reach("ready")
        for number in range(_TURNS):
            await bus.publish("t", Event(type="e", run_id="r", data=["old", number]))
        await asyncio.wait_for(complete.wait(), 20)
        return seen


async def contend(context: Any) -> list[Any]:
    """Hold a lease until told, then let it go; say who has it next."""
    async with context.open_lease() as lease:
        grant = await lease.acquire_lease("k", "old", 60_000)
        await context.reach("held", [grant.acquired, grant.fence])
        released = await lease.release_lease("k", "old", fence=grant.fence)
        await context.reach("released", released)
        again = await lease.acquire_lease("k", "old", 60_000)
        return [again.acquired, again.owner]


def _message(message_id: str) -> Message:
    content = {"format": 2, "parts": [{"type": "text", "text": "hi"}], "content": "hi"}
    return Message(
        id=message_id,
        role="user",
        thread_id="shared",
        resource_id="r1",
        created_at=_THEN,
        content=content,
    )
