"""An agent that hands work to another, whose risky call a person has to allow.

```text
  writer streams: start, step-start, tool-call, tool-call-approval
the editor's run waits for: publish {'title': 'Boats'}
published: Boats
  writer streams: tool-result, step-finish, step-start, text-start, text-delta, text-end, ...
It is online.
```
"""

from __future__ import annotations

import asyncio

from mastra_core import Agent, ModelOutput, tool
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call


@tool(require_approval=True)
async def publish(title: str) -> str:
    """Put an article on the website."""
    print("published:", title)
    return "online"


def inner_kinds(chunks: list[dict]) -> str:
    nested = [chunk["payload"]["output"] for chunk in chunks if chunk["type"] == "tool-output"]
    return ", ".join(chunk["type"] for chunk in nested)


async def show(output: ModelOutput) -> None:
    print("  writer streams:", inner_kinds([chunk async for chunk in output]))


async def main() -> None:
    writer = Agent(
        id="writer",
        description="Writes and publishes articles.",
        model=ScriptedModel([[tool_call("publish", {"title": "Boats"})], [text("Done")]]),
        tools=[publish],
    )
    order = tool_call("agent-writer", {"prompt": "An article on boats, please."})
    editor = Agent(
        id="editor", model=ScriptedModel([[order], [text("It is online.")]]), agents=[writer]
    )

    await show(await editor.stream("We need something on boats."))
    [run] = (await editor.list_suspended_runs()).runs
    [call] = run.tool_calls
    print("the editor's run waits for:", call.tool_name, call.args)
    output = await editor.approve_tool_call(run.run_id)
    await show(output)
    print(await output.text)
    await asyncio.gather(editor.aclose(), writer.aclose())


asyncio.run(main())
