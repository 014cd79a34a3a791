"""Built-in processors: the agent follows the AGENTS.md of the folders in which it works.

```text
the answer: Tea is 2.50, [EMAIL] can tell you more.
the model was told: <system-reminder type="dynamic-agents-md" path=".../shop/AGENTS.md">Prices are in cents.</system-reminder>
told again in the next run: False
```
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from mastra_core import Agent, Mastra, tool
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call


@tool
async def read_file(path: str) -> str:
    """Read a file."""
    return await asyncio.to_thread(Path(path).read_text)


def shop(root: Path) -> Path:
    """A folder with instructions, and a file in it."""
    folder = root / "shop"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("Prices are in cents.")
    (folder / "tea.txt").write_text("250, ask ann@example.org")
    return folder / "tea.txt"


async def main(root: Path) -> None:
    call = tool_call("read_file", {"path": str(shop(root))})
    answer = text("Tea is 2.50, ann@example.org can tell you more.")
    model = ScriptedModel([[call], [answer], [text("Any time.")]])
    agent = Agent(
        id="clerk",
        model=model,
        tools=[read_file],
        input_processors=[("agents-md-injector", {"root": root})],
        output_processors=[("regex-filter", {"presets": ["pii"], "strategy": "redact"})],
    )
    async with Mastra(agents=[agent]):
        thread = {"thread_id": "t1", "resource_id": "ann"}
        print("the answer:", (await agent.generate("What is tea?", **thread))["text"])
        print("the model was told:", model.requests[1].prompt[-1]["content"][0]["text"])
        await agent.generate("Thanks!", **thread)
        told = [turn for turn in model.requests[2].prompt if "system-reminder" in str(turn)]
        print("told again in the next run:", len(told) > 1)


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder)))
