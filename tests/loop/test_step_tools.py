"""Tools that a hook offers for one step count like those of the run (processors.md 4, hook 2)."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_core import Agent, FunctionTool, Mastra, ToolContext
from mastra_core.contracts.tool import Tool
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.processors.arguments import ProcessorArgs, StepPatch
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio

SCOPE = {"thread_id": "t", "resource_id": "r"}


async def pay(args: Any, context: ToolContext) -> str:
    if context.tool_name == "ask" and not context.is_resumed:
        await context.suspend({"question": "how much?"})
        return ""
    return f"paid {context.resume_data or args}"


class Offers:
    """Offers one more tool in each step, and says so."""

    id = "offers"

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self.asked: list[int] = []

    async def process_input_step(self, args: ProcessorArgs) -> StepPatch:
        self.asked.append(args.step_number)
        assert args.send_signal is not None
        assert args.write is not None
        await args.send_signal({"type": "reactive", "contents": f"offer {args.step_number}"})
        await args.write({"type": "data-offer", "data": args.step_number})
        return StepPatch(tools={**args.tools, self._tool.id: self._tool})


def clerk(tool: Tool, *calls: Any, **options: Any) -> tuple[Agent, Offers]:
    offers = Offers(tool)
    agent = Agent(
        id="clerk", model=ScriptedModel(list(calls)), input_processors=[offers], **options
    )
    return agent, offers


@pytest.mark.parametrize(
    ("tool", "answer", "result"),
    [
        (FunctionTool(id="pay", execute=pay, require_approval=True), {"approved": True}, "paid {}"),
        (
            FunctionTool(id="ask", execute=pay, resume_schema=dict),
            {"euros": 7},
            "paid {'euros': 7}",
        ),
    ],
    ids=["approved", "resumed"],
)
async def test_a_parked_call_finds_the_tool_that_a_hook_had_offered(
    tool: Tool, answer: dict[str, Any], result: str
) -> None:
    """Also in another process; what the hook does for that is neither seen nor kept."""
    storage = InMemoryStorage()
    look = FunctionTool(id="look", execute=pay)
    first, _ = clerk(tool, [tool_call(tool.id, {})], tools=[look])
    async with Mastra(storage=storage, agents=[first]):
        parked = await first.stream("go", **SCOPE)
        await parked.wait()
        schema = await parked.resume_schema
    second, offers = clerk(tool, [text("done")], tools=[look])
    async with Mastra(storage=storage, agents=[second]):
        output = await second.resume_stream(answer, run_id=parked.run_id)
        chunks = [chunk async for chunk in output.full_stream]
        rows = (await storage.memory.list_messages("t")).messages

    assert "{}" != schema
    assert [result] == [c["payload"]["result"] for c in chunks if c["type"] == "tool-result"]
    # Once for the parked step, once for the next.
    assert [0, 1] == offers.asked
    assert [1] == [chunk["data"] for chunk in chunks if chunk["type"] == "data-offer"]
    said = [row.content["parts"][0]["text"] for row in rows if row.role == "signal"]
    assert ["offer 0", "offer 1"] == said


async def test_a_hook_that_fails_when_asked_again_leaves_the_run_going() -> None:
    storage = InMemoryStorage()
    tool = FunctionTool(id="pay", execute=pay, require_approval=True)
    first, _ = clerk(tool, [tool_call("pay", {})])
    async with Mastra(storage=storage, agents=[first]):
        parked = await first.stream("go", **SCOPE)
        await parked.wait()

    class FailsOnce(Offers):
        async def process_input_step(self, args: ProcessorArgs) -> StepPatch:
            if not self.asked:
                self.asked.append(args.step_number)
                raise RuntimeError("not now")
            return await super().process_input_step(args)

    second = Agent(
        id="clerk", model=ScriptedModel([[text("done")]]), input_processors=[FailsOnce(tool)]
    )
    async with Mastra(storage=storage, agents=[second]):
        output = await second.approve_tool_call(parked.run_id)
        kinds = [chunk["type"] async for chunk in output.full_stream]

    assert ("tool-error", "finish") == (kinds[0], kinds[-1])
    assert "done" == await output.text


async def test_the_payloads_of_a_tool_that_a_hook_offers_are_transformed() -> None:
    hide = {"output": lambda payload: "hidden"}
    tool = FunctionTool(id="pay", execute=pay, transform={"display": hide, "transcript": hide})
    agent, _ = clerk(tool, [tool_call("pay", {})], [text("done")])
    async with Mastra(storage=InMemoryStorage(), agents=[agent]) as mastra:
        output = await agent.stream("go", **SCOPE)
        shown = [
            chunk["payload"]["result"]
            async for chunk in output.full_stream
            if chunk["type"] == "tool-result"
        ]
        rows = (await mastra.storage.memory.list_messages("t")).messages

    assert ["hidden"] == shown
    assert "paid" not in str([row.content for row in rows])
