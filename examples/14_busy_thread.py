"""A thread that is busy: a message joins the run, another gets its own, a third is taken back.

```text
busy: yes
run 1: Working on it.
run 1: Done, with milk.
run 2: Here is your cake.
never asked: tea
```
"""

from __future__ import annotations

import asyncio

from mastra_core import Agent, Mastra
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text

THREAD = {"thread_id": "kitchen", "resource_id": "ada"}


async def main() -> None:
    gates = Gates()
    working = [text("Working on it."), {"type": "gate", "name": "working"}]
    script = [working, [text("Done, with milk.")], [text("Here is your cake.")]]
    model = ScriptedModel(script, gates=gates)
    agent = Agent(id="cook", model=model)

    async with Mastra(storage="memory:", agents=[agent]):
        reader = agent.subscribe_to_thread(**THREAD)
        agent.send_message("Make coffee.", **THREAD)
        await gates.reached("working")
        print("busy:", "yes" if agent.get_active_thread_run_id(**THREAD) else "no")

        agent.send_message("With milk, please.", **THREAD)
        agent.queue_message("And then a cake.", **THREAD)
        tea = agent.queue_message("And tea.", **THREAD)
        agent.cancel_queued_messages(signal_ids=[tea.signal.id], **THREAD)
        gates.open("working")

        runs: list[str] = []
        words = ""
        async for chunk in reader.stream:
            if chunk["runId"] not in runs:
                runs.append(chunk["runId"])
            if chunk["type"] == "text-delta":
                words += chunk["payload"]["text"]
            elif chunk["type"] == "text-end":
                print(f"run {len(runs)}: {words}")
                words = ""
            elif chunk["type"] == "finish" and len(runs) == 2:
                break

    asked = " ".join(str(request.prompt) for request in model.requests)
    print("never asked:", "tea" if "tea" not in asked else "nothing")


asyncio.run(main())
