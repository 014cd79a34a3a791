"""Actions on runs: start, answer, list, abort."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from mastra_conformance.wire.expressions import UnknownVocabularyError, json_schema, snake_members
from mastra_conformance.wire.forms import full_output_form, output_form, plain
from mastra_conformance.wire.stage import NOTHING, RESOURCE, THREAD, Stage
from mastra_core.agent.agent import Agent
from mastra_core.base.isotime import parse_iso
from mastra_core.streaming.output import ModelOutput

__all__ = ("ACTS",)


def _options(stage: Stage, action: Mapping[str, Any]) -> dict[str, Any]:
    raw = stage.resolve(action.get("options", {}))
    options: dict[str, Any] = {}
    if not action.get("noThread"):
        options |= {"thread_id": THREAD, "resource_id": RESOURCE}
    memory = raw.pop("memory", None)
    if memory is not None:
        options |= {"thread_id": memory["thread"], "resource_id": memory["resource"]}
        stage.thread_ids.add(memory["thread"])
    if "abortAs" in action:
        options["abort_signal"] = stage.aborts.setdefault(action["abortAs"], asyncio.Event())
    if "structuredOutput" in raw:
        structured = snake_members(raw.pop("structuredOutput"))
        options["structured_output"] = {**structured, "schema": json_schema(structured["schema"])}
    return {**options, **snake_members(raw)}


async def _stream(stage: Stage, action: Mapping[str, Any]) -> Any:
    agent, options = stage.agent(action), _options(stage, action)
    if action.get("method") == "generate":
        return full_output_form(await agent.generate(action["input"], **options))
    output = await _start(agent, action, options)
    name = action.get("as")
    if name is not None:
        stage.streams[name] = output
        stage.named[name] = {"runId": output.run_id}
    if action.get("wait", True):
        async for _ in output.full_stream:
            pass
        return await output_form(output)
    return output


async def _start(agent: Agent, action: Mapping[str, Any], options: dict[str, Any]) -> ModelOutput:
    match action.get("method"):
        case None:
            return await agent.stream(action["input"], **options)
        case "approve":
            return await agent.approve_tool_call(**options)
        case "decline":
            return await agent.decline_tool_call(**options)
        case "resume":
            return await agent.resume_stream(action["resumeData"], **options)
        case other:
            raise UnknownVocabularyError("way to run an agent", other)


async def _abort_signal(stage: Stage, action: Mapping[str, Any]) -> Any:
    stage.aborts[action["of"]].set()
    return NOTHING


async def _list_suspended(stage: Stage, action: Mapping[str, Any]) -> Any:
    options = snake_members(action.get("options", {}))
    for name in ("from_date", "to_date"):
        if name in options:
            options[name] = parse_iso(options[name])
    return plain(await stage.agent(action).list_suspended_runs(**options))


async def _background_tasks(stage: Stage, action: Mapping[str, Any]) -> Any:
    manager = stage.mastra.background_tasks
    assert manager is not None
    found = await manager.list_tasks(**snake_members(action.get("options", {})))
    return {"tasks": [task.to_wire() for task in found.tasks], "total": found.total}


async def _tool_approval(stage: Stage, action: Mapping[str, Any]) -> Any:
    options = snake_members(action.get("options", {}))
    return await stage.agent(action).send_tool_approval(
        thread_id=THREAD, resource_id=RESOURCE, **options
    )


ACTS: Final[Mapping[str, Callable[[Stage, Mapping[str, Any]], Awaitable[Any]]]] = MappingProxyType(
    {
        "stream": _stream,
        "abortSignal": _abort_signal,
        "listSuspended": _list_suspended,
        "toolApproval": _tool_approval,
        "bgTasks": _background_tasks,
    }
)
