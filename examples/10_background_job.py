"""A long job in the background, with a progress bar; the model speaks before and after it.

```text
agent: The export has started.
[##........]  20 %
[####......]  40 %
[######....]  60 %
[########..]  80 %
[##########] 100 %
agent: Done: 5 files.
stored result: {'files': 5}
```
"""

from __future__ import annotations

import asyncio

from mastra_core import Agent, Mastra, ToolContext, tool
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

#: The job of this example starts after the first answer, however fast the machine is.
answered = asyncio.Event()


@tool(background=True)
async def export(files: int, context: ToolContext) -> dict[str, int]:
    """Export the files."""
    await answered.wait()
    for number in range(1, files + 1):
        await context.writer.write(100 * number // files)
    return {"files": files}


async def main() -> None:
    calls = [tool_call("export", {"files": 5})], [text("The export has started.")]
    model = ScriptedModel([*calls, [text("Done: 5 files.")]])
    agent = Agent(id="clerk", model=model, tools=[export])
    async with Mastra(storage="memory:", agents=[agent], background_tasks=True) as mastra:
        output = await agent.stream("Export!", thread_id="t1", resource_id="ann", until_idle=True)
        said: list[str] = []
        async for chunk in output.full_stream:
            match chunk["type"]:
                case "text-delta":
                    said.append(chunk["payload"]["text"])
                case "text-end":
                    print("agent:", "".join(said))
                    said.clear()
                    answered.set()
                case "background-task-output":
                    percent = chunk["payload"]["payload"]["payload"]["output"]
                    print(f"[{'#' * (percent // 10):.<10}] {percent:3} %")
        page = await mastra.storage.memory.list_messages("t1")
        call = page.messages[1].content["parts"][0]["toolInvocation"]
        print("stored result:", call["result"])


asyncio.run(main())
