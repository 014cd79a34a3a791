"""Choose a store by its URL: the code stays the same, and so do the threads.

```text
memory: volatile True, remembers ['Hello', 'Hi']
file:app.db volatile False, remembers ['Hello', 'Hi']
file:app.db, opened again: ['Hello', 'Hi']
nosuch:thing: Unknown storage scheme 'nosuch' in 'nosuch:thing'. Known: ...
```
"""

from __future__ import annotations

import asyncio

from mastra_core import Agent, Mastra
from mastra_core.errors import ConfigError, PluginError
from mastra_core.testing.scripted_model import ScriptedModel, text


async def remembered(mastra: Mastra) -> list[str]:
    page = await mastra.storage.memory.list_messages("t1")
    return [message.content["parts"][-1]["text"] for message in page.messages]


async def main() -> None:
    for url in ("memory:", "file:app.db"):
        agent = Agent(id="friend", model=ScriptedModel([[text("Hi")]]))
        # lease="memory:" says that no other process works on these threads.
        async with Mastra(storage=url, lease="memory:", agents=[agent]) as mastra:
            output = await agent.stream("Hello", thread_id="t1", resource_id="ann")
            await output.text
            volatile = mastra.storage.volatile
            print(f"{url} volatile {volatile}, remembers {await remembered(mastra)}")

    async with Mastra(storage="file:app.db", lease="memory:") as mastra:
        print("file:app.db, opened again:", await remembered(mastra))

    try:
        await Mastra(storage="nosuch:thing").open()
    except (ConfigError, PluginError) as error:
        print("nosuch:thing:", error)


asyncio.run(main())
