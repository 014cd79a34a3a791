"""Aborting a thread whose run waits for an approval (signals.md 9, decisions.md 3)."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import FunctionTool
from mastra_core.testing.scripted_model import text, tool_call
from mastra_core.testing.thread_scene import ThreadScene

__all__ = ()

pytestmark = pytest.mark.anyio

T: dict[str, Any] = {"thread_id": "t", "resource_id": "r"}


@case("signals", 72)
async def test_an_approval_after_the_abort_only_frees_the_thread(scene: ThreadScene) -> None:
    """The run stays and blocks; then neither its tool nor its model is used."""
    ran: list[Any] = []

    async def deploy(args: Any, context: Any) -> str:
        ran.append(args)
        return "deployed"

    tool = FunctionTool(id="deploy", execute=deploy, require_approval=True)
    agent = scene.agent([tool_call("deploy", {})], [text("never")], tools=[tool])
    other = scene.agent([text("free again")], agent_id="b")
    accepted = await agent.send_message("go", **T).accepted
    await scene.idle()
    assert accepted.run_id is not None

    was_aborted = agent.abort_thread_stream(**T)
    await scene.idle()
    active = agent.get_active_thread_run_id(**T)
    listed = [run.run_id for run in (await agent.list_suspended_runs()).runs]
    blocked = await other.send_message("hello", **T).accepted
    resumed = await agent.approve_tool_call(accepted.run_id)
    reason = await resumed.finish_reason
    await scene.idle()
    freed = agent.get_active_thread_run_id(**T)
    left = (await agent.list_suspended_runs()).total
    woken = await other.send_message("hello", **T).accepted
    await scene.idle()

    assert (True, accepted.run_id, [accepted.run_id]) == (was_aborted, active, listed)
    assert ("blocked", accepted.run_id) == (blocked.action, blocked.run_id)
    assert ("aborted", [], 1) == (reason, ran, len(scene.models["a"].requests))
    assert (None, 0, "wake") == (freed, left, woken.action)
    assert 1 == len(scene.models["b"].requests)
