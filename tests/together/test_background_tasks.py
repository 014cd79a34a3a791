"""Background tasks on a store in a file: other processes, and deaths (streaming.md 8.1, 8.5, 8.9)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, FunctionTool, Mastra, ToolContext
from mastra_core.background import BackgroundTaskManager
from mastra_core.config import Settings
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text, tool_call
from mastra_core.wire.tasks import BackgroundTask

pytestmark = pytest.mark.anyio

THREAD = {"thread_id": "t1", "resource_id": "u1"}


class Desk:
    """An agent whose one tool waits at a gate; what its bodies did is counted."""

    def __init__(self, *calls: Any, **background: Any) -> None:
        self.gates = Gates()
        self.ran: list[str] = []

        async def body(args: Any, context: ToolContext) -> str:
            self.ran.append(context.tool_call_id)
            await self.gates.wait("end")
            return "found"

        self.model = ScriptedModel(calls)
        tool = FunctionTool(id="research", execute=body, background=background or True)
        self.agent = Agent(id="helper", model=self.model, tools=[tool])


def manager_of(app: Mastra) -> BackgroundTaskManager:
    assert app.background_tasks is not None
    return app.background_tasks


async def ends(app: Mastra, task_id: str) -> BackgroundTask:
    """The record once it has ended."""
    manager = manager_of(app)
    assert await manager.wait_for_end([task_id], limit_ms=20_000)
    await app.pubsub.flush()
    task = await manager.get_task(task_id)
    assert task is not None
    return task


async def calls_of(app: Mastra) -> list[dict[str, Any]]:
    page = await app.storage.memory.list_messages("t1", per_page=False)
    return [
        part["toolInvocation"]
        for message in page.messages
        for part in message.content["parts"]
        if part["type"] == "tool-invocation"
    ]


CALL = [tool_call("research", {"topic": "tea"})]


@case("streaming", 46)
async def test_leases_of_a_file_keep_other_processes_out(tmp_path: Path) -> None:
    """The same with a libSQL file as store and lease, and two handles on it."""
    url = f"file:{tmp_path / 'app.db'}"
    first, other = Desk(CALL, [text("started")]), Desk()
    options: dict[str, Any] = {
        "storage": url,
        "pubsub": "memory:",
        "lease": url,
        "settings": Settings(),
        "notifications": {"enabled": False},
        "background_tasks": {"shutdown_grace_ms": 0},
    }
    async with Mastra(agents=[first.agent], **options) as app:
        await (await first.agent.stream("go", **THREAD)).wait()
        await first.gates.reached("end")
        (before,) = (await manager_of(app).list_tasks()).tasks
        async with Mastra(agents=[other.agent], **options) as second:
            await manager_of(second)._recovery.look()
            after = await manager_of(second).get_task(before.id)
            assert after is not None
            assert after.to_wire() == before.to_wire()
        first.gates.open("end")
        ended = await ends(app, before.id)

    assert (ended.status, other.ran) == ("completed", [])


# -- a process that is killed -------------------------------------------------------------------

CHILD = """
import asyncio, sys
from mastra_core import Agent, FunctionTool, Mastra
from mastra_core.config import Settings
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call
from mastra_core.background import manager, execute

async def never(args, context):
    if sys.argv[2] == "body":
        die()
    return "found"

def die():
    import os
    print("dying", flush=True)
    os._exit(9)

def kill_at(place):
    async def killed(*args, **options):
        die()
    if place == "recorded":
        manager.begin = killed
    if place == "ending":
        execute._end = killed
    if place == "message":
        manager.BackgroundTaskManager.deliver = killed
    if place == "event":
        old = manager.BackgroundTaskManager.tell
        async def tell(self, kind, task, chunk=None):
            if kind == "task.completed":
                die()
            await old(self, kind, task, chunk=chunk)
        manager.BackgroundTaskManager.tell = tell

async def main():
    kill_at(sys.argv[2])
    model = ScriptedModel([[tool_call("research", {"topic": "tea"})], [text("started")]])
    tool = FunctionTool(id="research", execute=never, background={"max_retries": 1})
    agent = Agent(id="helper", model=model, tools=[tool])
    async with Mastra(storage=sys.argv[1], pubsub="memory:", lease=sys.argv[1], agents=[agent],
                      settings=Settings(), notifications={"enabled": False},
                      background_tasks={"lease_ttl_ms": 1000}):
        await (await agent.stream("go", thread_id="t1", resource_id="u1")).wait()
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("place", ["recorded", "body", "ending", "message", "event"])
async def test_a_killed_process_loses_no_task(tmp_path: Path, place: str) -> None:
    """Killed at every step; the next process on the same file ends the task and the message."""
    url = f"file:{tmp_path / 'app.db'}"
    died = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", CHILD, url, place],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (died.returncode, died.stdout) == (9, "dying\n"), died.stderr

    desk = Desk(max_retries=1)
    desk.gates.open("end")
    async with Mastra(
        storage=url,
        pubsub="memory:",
        lease=url,
        agents=[desk.agent],
        settings=Settings(),
        notifications={"enabled": False},
        background_tasks={"lease_ttl_ms": 1000, "recovery_interval_ms": 200, "poll_ms": 100},
    ) as app:
        (left,) = (await manager_of(app).list_tasks()).tasks
        task = await ends(app, left.id)
        told = await _told(app)

    assert task.status == "completed", json.dumps(task.to_wire())
    assert len(desk.ran) == (0 if place in ("message", "event") else 1)
    assert told == [("result", "found")]


async def _told(app: Mastra) -> list[tuple[str, Any]]:
    """The calls of the thread, once none of them is open or a placeholder."""
    async with asyncio.timeout(60):
        while True:
            await manager_of(app)._recovery.look()
            told = [(call["state"], call.get("result")) for call in await calls_of(app)]
            is_open = any(
                state == "call" or str(result).startswith("Background task")
                for state, result in told
            )
            if told and not is_open:
                return told
