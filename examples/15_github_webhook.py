"""A real GitHub delivery wakes the thread that subscribed; a forged one doesn't.

```text
forged: 401
signed: 200 {'matched': 1}
high Check suite on ... is failure
The build is broken.
```
"""

from __future__ import annotations

import asyncio
import json

from mastra_core import Agent, Mastra, WebhookRequest
from mastra_core.testing.scripted_model import ScriptedModel, text
from mastra_github import GitHubSignals, sign
from mastra_github.samples import packaged_deliveries

SECRET = "the same as in the settings of the webhook"
THREAD = {"thread_id": "builds", "resource_id": "ada"}


async def main() -> None:
    github = GitHubSignals(SECRET)
    model = ScriptedModel([[text("The build is broken.")]])
    agent = Agent(id="triage", model=model, signals=[github])
    delivery = next(d for d in packaged_deliveries() if d.event == "check_suite")
    delivery.payload["check_suite"]["conclusion"] = "failure"
    body = json.dumps(delivery.payload).encode()

    async with Mastra(storage="memory:", agents=[agent]) as mastra:
        await github.subscribe(delivery.payload["repository"]["full_name"], **THREAD)
        reader = agent.subscribe_to_thread(**THREAD)

        # What your route does with each request that it gets:
        for name, secret in (("forged", "a guess"), ("signed", SECRET)):
            headers = {"X-GitHub-Event": delivery.event, "X-Hub-Signature-256": sign(body, secret)}
            answer = await github.handle_webhook(WebhookRequest(body=body, headers=headers))
            print(f"{name}:", answer.status, *([answer.body] if answer.status == 200 else []))

        inbox = mastra.storage.notifications
        for record in await inbox.list_notifications(thread_id=THREAD["thread_id"]):
            print(record.priority, record.summary)
        words = ""
        async for chunk in reader.stream:
            if chunk["type"] == "text-delta":
                words += chunk["payload"]["text"]
            elif chunk["type"] == "finish":
                break
        print(words)


asyncio.run(main())
