"""Let a tool ask for something it needs: it suspends with a question and is resumed with data.

```text
asks: {'question': 'Window or aisle?'}
refused: Tool 'book' got resume data that don't fit: ...: Input should be 'window' or 'aisle'.
booked: window
Seat 12A is yours.
```
"""

from __future__ import annotations

import asyncio
from typing import Literal

from mastra_core import Agent, ToolContext, tool
from mastra_core.errors import SchemaError
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call


@tool(resume_schema=Literal["window", "aisle"])
async def book(flight: str, context: ToolContext) -> str | None:
    """Book a seat."""
    if not context.is_resumed:
        await context.suspend({"question": "Window or aisle?"})
        return None
    print("booked:", context.resume_data)
    return "12A"


async def main() -> None:
    model = ScriptedModel([[tool_call("book", {"flight": "X1"})], [text("Seat 12A is yours.")]])
    agent = Agent(id="desk", model=model, tools=[book])

    output = await agent.stream("Book X1.")
    await output.wait()
    (run,) = (await agent.list_suspended_runs()).runs
    print("asks:", run.tool_calls[0].suspend_payload)
    try:
        await agent.resume_stream("roof", run_id=run.run_id)
    except SchemaError as error:
        print("refused:", error)  # nothing has happened: the run still waits
    output = await agent.resume_stream("window", run_id=run.run_id)
    print(await output.text)
    await agent.aclose()


asyncio.run(main())
