"""Answer a run that an earlier process left: the store remembers where it stopped.

The first process asks for approval and dies on the spot; the second one finds the run in the
same file and finishes it.

```text
process 1: asked, and dies
process 2: finds deploy {'version': '2.1'}
process 2: version 2.1 deployed
process 2: It is live.
```
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from mastra_core import Agent, Mastra, tool
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call


@tool(require_approval=True)
async def deploy(version: str) -> str:
    """Bring a version to the users."""
    print(f"process 2: version {version} deployed")
    return "done"


async def first() -> None:
    model = ScriptedModel([[tool_call("deploy", {"version": "2.1"})]])
    agent = Agent(id="pilot", model=model, tools=[deploy])
    async with Mastra(storage="file:app.db", lease="memory:", agents=[agent]):
        output = await agent.stream("Ship it.", thread_id="t1", resource_id="team")
        await output.wait()
        print("process 1: asked, and dies", flush=True)
        os._exit(1)


async def second() -> None:
    agent = Agent(id="pilot", model=ScriptedModel([[text("It is live.")]]), tools=[deploy])
    async with Mastra(storage="file:app.db", lease="memory:", agents=[agent]):
        (run,) = (await agent.list_suspended_runs(thread_id="t1")).runs
        print("process 2: finds", run.tool_calls[0].tool_name, run.tool_calls[0].args)
        output = await agent.approve_tool_call(run.run_id)
        print("process 2:", await output.text)


if sys.argv[1:] == ["first"]:
    asyncio.run(first())
else:
    subprocess.run([sys.executable, __file__, "first"], check=False)
    asyncio.run(second())
