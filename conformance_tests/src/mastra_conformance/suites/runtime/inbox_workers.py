"""Processes with an inbox that come to grief at a named point, or nearly so."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

from mastra_conformance.processes import WorkerContext
from mastra_conformance.suites.runtime.inboxes import Inbox
from mastra_conformance.suites.runtime.notifications import RESOURCE, THREAD, House, house
from mastra_core.base.ids import UuidIds
from mastra_core.contracts.storage import Storage
from mastra_core.notifications import create_notification_inbox_tool
from mastra_core.testing.faults import CRASH_EXIT, Hook, faulty_storage
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

__all__ = ("busy", "crash", "dispatch_all", "freeze")


async def crash(context: WorkerContext) -> None:
    """
    Do something with the inbox and die at a point of the store.

    Arguments: ``action`` (``send``, ``dispatch``, ``tick`` or ``read``), ``point``, and
    perhaps ``event`` (what to send), ``settings`` of the inbox, ``fails`` (there is no model),
    ``once`` (another point that has to be reached first).
    """
    given = context.arguments
    async with (
        context.open_store() as store,
        _house(store, context, _crash(given["point"], given.get("once"))) as home,
    ):
        await _act(home, given)


def _crash(point: str, once: str | None) -> Hook:
    passed = asyncio.Event()
    if once is None:
        passed.set()

    async def hook(reached: str) -> None:
        if reached == once:
            passed.set()
        if reached == point:
            await passed.wait()
            os._exit(CRASH_EXIT)

    return hook


async def _act(home: House, given: Mapping[str, Any]) -> None:
    match given["action"]:
        case "send":
            await home.notify(**given.get("event", {}))
        case "dispatch":
            await home.dispatch(after=given.get("after", 0))
        case "tick":
            await home.mastra.notifications.claim_tick()
            await home.dispatch(after=given.get("after", 0))
        case "read":
            home.agent.send_message("check", resource_id=RESOURCE, thread_id=THREAD)
    await home.quiet()


async def freeze(context: WorkerContext) -> dict[str, Any]:
    """Dispatch, and stand still when the signal was taken but nothing is written about it."""

    async def hook(reached: str) -> None:
        if reached == context.arguments["point"]:
            context.stand_still("sent")

    async with (
        context.open_store() as store,
        _house(store, context, hook) as home,
    ):
        now = home.mastra.clock.now() + timedelta(seconds=context.arguments.get("after", 0))
        result = await home.mastra.dispatch_due_notifications(now=now)
        await home.quiet()
        return {
            "delivered": [record.id for record in result.delivered],
            "signals": [signal.id for signal in result.signals],
        }


async def dispatch_all(context: WorkerContext) -> list[str]:
    """Dispatch until nothing is due; the ids of the signals that this process sent."""
    async with context.open_store() as store:
        inbox = Inbox(store, clock=context.opener.clock, ids=UuidIds(), batch_size=5)
        await context.reach("ready")
        while (await inbox.dispatch(after=60)).has_more:
            pass
        return [signal.id for signal, _ in inbox.sink.sent]


async def busy(context: WorkerContext) -> None:
    """Run an agent that works and works, and queue an urgent event for it."""
    model = ScriptedModel([[text("thinking"), {"type": "gate", "name": "for ever"}]])
    async with (
        context.open_store() as store,
        house(store, clock=context.opener.clock, ids=UuidIds(), model=model) as home,
    ):
        home.agent.send_message("go", resource_id=RESOURCE, thread_id=THREAD)
        await model.gates.reached("for ever")
        result = await home.notify(id="n1", priority="urgent", summary="urgent text")
        accepted = result.accepted.action if result.accepted else None
        await context.reach("queued", [accepted, result.record.status])


def _house(
    store: Storage, context: WorkerContext, hook: Hook
) -> AbstractAsyncContextManager[House]:
    given = context.arguments
    tool = create_notification_inbox_tool(
        faulty_storage(store, hook).notifications, clock=context.opener.clock
    )
    reads = given.get("action") == "read"
    read = tool_call("notification-inbox", {"action": "read", "id": "n1"})
    return house(
        faulty_storage(store, hook),
        clock=context.opener.clock,
        ids=UuidIds(),
        calls=[[read], [text("done")]] if reads else [[text("Seen")]],
        tools=[tool],
        has_model=not given.get("fails", False),
        **given.get("settings", {}),
    )
