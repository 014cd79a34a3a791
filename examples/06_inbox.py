"""Put events into the inbox of a thread: what can wait does, and what repeats is one record.

```text
low: check started -> summarize
low: check still runs -> summarize
high: check failed -> deliver
the agent reads: ...<notification ...>check failed</notification>...
records:
- failed: delivered, 1 event(s): check failed
- started: pending, 2 event(s): check still runs
```
"""

from __future__ import annotations

import asyncio

from mastra_core import Agent, Mastra
from mastra_core.testing.scripted_model import ScriptedModel, text

EVENTS = (
    ("low", "started", "check started"),
    ("low", "started", "check still runs"),
    ("high", "failed", "check failed"),
)


async def main() -> None:
    model = ScriptedModel([[text("I look at it.")]])
    agent = Agent(id="watcher", model=model)
    async with Mastra(agents=[agent]) as mastra:
        runs = agent.subscribe_to_thread(thread_id="t1", resource_id="team")
        for priority, kind, summary in EVENTS:
            event = {"source": "ci", "kind": kind, "priority": priority, "summary": summary}
            result = await agent.send_notification_signal(
                {**event, "coalesce_key": f"main/{kind}"}, thread_id="t1", resource_id="team"
            )
            print(f"{priority}: {summary} -> {result.decision.action}")

        # The high one woke the agent: follow its run to the end.
        async for chunk in runs.stream:
            if chunk["type"] == "finish":
                break
        prompt = model.requests[0].prompt
        print("the agent reads:", *(message["content"][0]["text"] for message in prompt))
        print("records:")
        for record in await mastra.storage.notifications.list_notifications("t1"):
            count = f"{record.coalesced_count} event(s)"
            print(f"- {record.kind}: {record.status}, {count}: {record.summary}")


asyncio.run(main())
