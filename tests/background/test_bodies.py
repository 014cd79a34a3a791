"""A body that runs as a task is treated like one that runs in its run (streaming.md 6.3, 6.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from pydantic import BaseModel

from mastra_core import Agent, FunctionTool, Mastra, ToolContext
from mastra_core.background import BackgroundTaskManager
from mastra_core.contracts.tool_hooks import ToolCallStart, ToolHooks, ToolSkip
from mastra_core.errors import ResumeKindMismatchError, SchemaError
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call
from mastra_core.wire.tasks import BackgroundTask

pytestmark = pytest.mark.anyio

OpenApp = Callable[..., Any]
THREAD: Final = {"thread_id": "t1", "resource_id": "u1"}
CALL: Final = tool_call("order", {})


class Tea(BaseModel):
    cups: int


def clerk(execute: Any, **options: Any) -> Agent:
    tool = FunctionTool(id="order", execute=execute, background=True, **options)
    return Agent(id="clerk", model=ScriptedModel([[CALL], [text("ok")]]), tools=[tool])


async def ask(args: Any, context: ToolContext) -> Any:
    if not context.is_resumed:
        await context.suspend({"ask": "how much?"})
        return None
    return f"{context.resume_data.cups} cups"


def manager_of(app: Mastra) -> BackgroundTaskManager:
    assert app.background_tasks is not None
    return app.background_tasks


async def task_of(app: Mastra) -> BackgroundTask:
    """The one task, once it runs no more."""
    manager = manager_of(app)
    (task,) = (await manager.list_tasks()).tasks
    assert await manager.wait_for_end([task.id], limit_ms=20_000)
    (task,) = (await manager.list_tasks()).tasks
    return task


@pytest.mark.parametrize("is_restarted", [False, True], ids=["here", "elsewhere"])
async def test_a_hook_keeps_a_call_from_running(open_app: OpenApp, is_restarted: bool) -> None:
    """A policy can't be got round by handing the call over."""
    ran: list[Any] = []
    seen: list[str] = []

    async def order(args: Any, context: ToolContext) -> str:
        ran.append(args)
        return "ordered"

    def refuse(start: ToolCallStart) -> ToolSkip:
        seen.append(start.tool_call_id)
        return ToolSkip(output="not today")

    def agent() -> Agent:
        tool = FunctionTool(id="order", execute=order, background=True)
        return Agent(
            id="clerk",
            model=ScriptedModel([[CALL], [text("ok")]]),
            tools=[tool],
            default_options={"hooks": ToolHooks(before=refuse)},
        )

    asking = agent()
    options = {"background_tasks": {"mode": "producer"}} if is_restarted else {}
    app = await open_app(asking, **options)
    if is_restarted:
        await open_app(agent())
    await (await asking.stream("go", **THREAD)).wait()

    task = await task_of(app)

    assert ("completed", "not today") == (task.status, task.result)
    assert ["call_1"] == seen
    assert [] == ran


async def test_data_come_as_the_type_that_the_tool_wants(open_app: OpenApp) -> None:
    """Data that don't fit are refused, and the task waits on."""
    agent = clerk(ask, resume_schema=Tea)
    app = await open_app(agent)
    await (await agent.stream("go", **THREAD)).wait()
    task = await task_of(app)

    with pytest.raises(SchemaError):
        await manager_of(app).resume(task.id, {"cups": "many"})
    assert "suspended" == (await task_of(app)).status
    await manager_of(app).resume(task.id, {"cups": "2"})

    assert "2 cups" == (await task_of(app)).result


async def test_a_result_that_does_not_fit_is_told_as_such(open_app: OpenApp) -> None:
    async def order(args: Any, context: ToolContext) -> Any:
        return {"cups": "many"}

    agent = clerk(order, output_schema=Tea)
    app = await open_app(agent)
    await (await agent.stream("go", **THREAD)).wait()

    result = (await task_of(app)).result

    assert result["error"] is True
    assert ["cups"] == list(result["validationErrors"]["fields"])


async def test_what_is_no_decision_does_not_decline(open_app: OpenApp) -> None:
    """A task that waits for a sub-agent's approval takes a decision and nothing else."""

    async def pay(args: Any, context: ToolContext) -> str:
        return "paid"

    tool = FunctionTool(id="pay", execute=pay, require_approval=True)
    inner = Agent(
        id="inner", model=ScriptedModel([[tool_call("pay", {})], [text("done")]]), tools=[tool]
    )
    ask_inner = tool_call("agent-inner", {"prompt": "Pay."}, id="outer")
    outer = Agent(
        id="outer",
        model=ScriptedModel([[ask_inner], [text("ok")]]),
        agents=[inner],
        background_tasks={"tools": "all"},
    )
    app = await open_app(outer)
    await (await outer.stream("go", **THREAD)).wait()
    task = await task_of(app)

    with pytest.raises(ResumeKindMismatchError):
        await manager_of(app).resume(task.id, {"answer": "yes"})
    await manager_of(app).resume(task.id, {"approved": True})

    ended = await task_of(app)
    assert "completed" == ended.status
    assert ["paid"] == [one["result"] for one in ended.result["subAgentToolResults"]]
