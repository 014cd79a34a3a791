"""Stream an answer: text as it arrives, then everything else that the run knows.

The model here plays a script, so the example needs no key and no network. A real one is named
instead: ``model="openai/gpt-4o-mini"`` in an application, see docs/how-to/choose-a-model.md.

```text
Paris is the capital of France.
finish reason: stop
tokens: 15
chunks: start, step-start, text-start, text-delta, text-end, step-finish, finish
```
"""

from __future__ import annotations

import asyncio

from mastra_core import Agent
from mastra_core.testing.scripted_model import ScriptedModel, text


async def main() -> None:
    agent = Agent(
        id="geographer",
        instructions="Answer in one sentence.",
        model=ScriptedModel([[text("Paris is the capital of France.")]]),
    )

    output = await agent.stream("What is the capital of France?")
    async for words in output.text_stream:
        print(words, end="", flush=True)
    print()

    print("finish reason:", await output.finish_reason)
    print("tokens:", (await output.usage)["totalTokens"])
    # A stream can be read again, from its first chunk on.
    kinds = [chunk["type"] async for chunk in output.full_stream]
    print("chunks:", ", ".join(dict.fromkeys(kinds)))
    await agent.aclose()


asyncio.run(main())
