"""Answers to parked calls whose tools the agent itself doesn't have (snapshots.md 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
from pydantic import BaseModel

from mastra_core import Agent, FunctionTool, Mastra, ToolContext
from mastra_core.errors import SchemaError
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.processors.arguments import ProcessorArgs, StepPatch
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio

SCOPE: Final = {"thread_id": "t", "resource_id": "r"}


class Amount(BaseModel):
    euros: int


async def ask(args: Any, context: ToolContext) -> str | None:
    if not context.is_resumed:
        await context.suspend({"question": "how much?"})
        return None
    return f"{context.resume_data.euros} euros"


ASK: Final = FunctionTool(id="ask", execute=ask, resume_schema=Amount)
PAY: Final = FunctionTool(id="pay", execute=ask, require_approval=True)


def with_ask(args: ProcessorArgs) -> StepPatch:
    return StepPatch(tools={**args.tools, "ask": ASK})


async def parked(storage: InMemoryStorage, tool: FunctionTool, **options: Any) -> str:
    """The id of a run that waits in a call of this tool, in a process that is gone."""
    agent = Agent(id="clerk", model=ScriptedModel([[tool_call(tool.id, {})]]))
    async with Mastra(storage=storage, agents=[agent]):
        output = await agent.stream("go", **SCOPE, **options)
        await output.wait()
    return output.run_id


@pytest.mark.parametrize(
    "options",
    [{"tools": [ASK]}, {"toolsets": {"more": {"ask": ASK}}}, {"prepare_step": with_ask}],
    ids=["tools", "toolsets", "step"],
)
async def test_data_that_do_not_fit_are_refused_whoever_has_the_tool(
    options: Mapping[str, Any],
) -> None:
    """The suspension stays, and takes the right answer (decisions.md 16)."""
    storage = InMemoryStorage()
    run_id = await parked(storage, ASK, **options)
    agent = Agent(id="clerk", model=ScriptedModel([[text("done")]]))
    async with Mastra(storage=storage, agents=[agent]):
        with pytest.raises(SchemaError) as raised:
            await agent.resume_stream({"euros": "many"}, run_id=run_id, **options)
        output = await agent.resume_stream({"euros": 7}, run_id=run_id, **options)
        results = [
            chunk["payload"]["result"]
            async for chunk in output.full_stream
            if chunk["type"] == "tool-result"
        ]

    assert "WORKFLOW_SCHEMA_VALIDATION_FAILED" == raised.value.id
    assert ["7 euros"] == results


async def test_who_declines_needs_no_tool() -> None:
    """Nothing is to be run: the model learns of the refusal, not that a tool is missing."""
    storage = InMemoryStorage()
    run_id = await parked(storage, PAY, tools=[PAY])
    agent = Agent(id="clerk", model=ScriptedModel([[text("done")]]))
    async with Mastra(storage=storage, agents=[agent]):
        output = await agent.decline_tool_call(run_id, reason="too dear")
        chunks = [chunk async for chunk in output.full_stream]

    assert "tool-output-denied" == chunks[0]["type"]
    assert "too dear" == chunks[0]["payload"]["approval"]["reason"]
