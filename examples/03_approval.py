"""Ask a person before a tool runs: the run stops, and goes on with the answer.

```text
waits for: refund {'order': 'A7', 'euros': 40}
refund of 40 euros paid
The refund is on its way.
waits for: refund {'order': 'A8', 'euros': 9000}
I may not refund that.
```
"""

from __future__ import annotations

import asyncio

from mastra_core import Agent, tool
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call


@tool(require_approval=True)
async def refund(order: str, euros: int) -> str:
    """Pay money back."""
    print(f"refund of {euros} euros paid")
    return "done"


async def main() -> None:
    model = ScriptedModel(
        [
            [tool_call("refund", {"order": "A7", "euros": 40})],
            [text("The refund is on its way.")],
            [tool_call("refund", {"order": "A8", "euros": 9000})],
            [text("I may not refund that.")],
        ]
    )
    agent = Agent(id="clerk", model=model, tools=[refund])

    for question in ("Refund A7!", "Refund A8!"):
        output = await agent.stream(question)
        await output.wait()  # the run is suspended now, and could stay so for weeks
        (run,) = (await agent.list_suspended_runs()).runs
        (call,) = run.tool_calls
        print("waits for:", call.tool_name, call.args)
        if call.args["euros"] <= 100:
            output = await agent.approve_tool_call(run.run_id, call.tool_call_id)
        else:
            output = await agent.decline_tool_call(run.run_id, reason="Too much for me.")
        print(await output.text)
    await agent.aclose()


asyncio.run(main())
