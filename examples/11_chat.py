"""A chat in the terminal: the agent remembers the thread, and answers word by word.

``python examples/11_chat.py local/smollm2`` talks with a real model; without a name it repeats
what you say. Leave with an empty line.

```stdin
Hello!
Do you remember me?

```

```text
you: echo: Hello!
you: echo: Do you remember me?
you: 4 messages so far.
```
"""

from __future__ import annotations

import asyncio
import sys

from mastra_core import Agent, Mastra

MODEL = sys.argv[1] if len(sys.argv) > 1 else "scripted/echo"
CHAT = {"thread_id": "chat", "resource_id": "me"}


async def ask() -> str:
    """What the user writes; empty at the end."""
    try:
        return await asyncio.to_thread(input, "you: ")
    except EOFError:
        return ""


async def main() -> None:
    agent = Agent(id="echo", instructions="Answer in one short sentence.", model=MODEL)
    async with Mastra(agents=[agent]) as mastra:
        while said := await ask():
            output = await agent.stream(said, **CHAT)
            print(f"{agent.id}: ", end="")
            async for words in output.text_stream:
                print(words, end="", flush=True)
            print()
        kept = await mastra.storage.memory.list_messages(CHAT["thread_id"])
        print(len(kept.messages), "messages so far.")


asyncio.run(main())
