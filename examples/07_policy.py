"""Say yourself what happens to an event: by source, by priority, or with a function.

```text
newsletter, low -> discard (discarded)
billing, high -> defer (pending)
billing, urgent -> deliver (delivered)
pager, medium -> deliver (delivered)
due within the hour: 1
```
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from mastra_core import Agent, Mastra
from mastra_core.notifications import DeliveryInput
from mastra_core.testing.scripted_model import ScriptedModel, text


def wait_for_the_books(event: DeliveryInput) -> dict[str, Any] | None:
    """Asked first; None leaves the decision to the tables, then to the built-in policy."""
    if event.record.source == "billing" and event.record.priority != "urgent":
        return {"action": "defer", "deliver_at": event.now + timedelta(minutes=30)}
    return None


async def main() -> None:
    policy = {
        "decide": wait_for_the_books,
        "sources": {"newsletter": "discard"},
        "priorities": {"medium": "deliver"},
    }
    agent = Agent(
        id="assistant",
        model=ScriptedModel([[text("I see.")]] * 2),
        notifications={"delivery_policy": policy},
    )
    async with Mastra(agents=[agent]) as mastra:
        for source, priority in (
            ("newsletter", "low"),
            ("billing", "high"),
            ("billing", "urgent"),
            ("pager", "medium"),
        ):
            event = {"source": source, "kind": "mail", "priority": priority, "summary": "..."}
            result = await agent.send_notification_signal(event, thread_id="t1", resource_id="ann")
            status = result.record.status
            print(f"{source}, {priority} -> {result.decision.action} ({status})")
        soon = datetime.now(UTC) + timedelta(hours=1)
        due = await mastra.storage.notifications.list_due_notifications(soon)
        print("due within the hour:", len(due))


asyncio.run(main())
