"""Put the end of a task where its placeholder stands (streaming.md 8.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mastra_core.base.clock import Clock
from mastra_core.base.ids import uuid5
from mastra_core.contracts.storage import MemoryStorage, OrderBy
from mastra_core.messages.task_results import INJECTED, apply_task, find_task_part
from mastra_core.wire.messages import Message
from mastra_core.wire.tasks import BackgroundTask

__all__ = ("ResultWriter",)

_PAGE: Final = 100


class ResultWriter:
    """Writes ends of tasks into stored messages."""

    def __init__(self, store: MemoryStorage, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def write(self, task: BackgroundTask) -> None:
        """
        Replace the placeholder in its message; a call that no message holds is appended.

        Doing it twice does nothing.

        Raises:
            StorageError: It could not be read or written.
        """
        if task.status not in INJECTED or task.thread_id is None:
            return
        message = await self._find(task)
        if message is None:
            if await self._store.get_thread_by_id(task.thread_id) is None:
                return
            message = _lone_message(task, self._clock)
            await self._store.save_messages([message])
            return
        content = _copied(message.content)
        if apply_task(content, task):
            await self._store.save_messages([message.replace(content=content)])

    async def _find(self, task: BackgroundTask) -> Message | None:
        """The newest message with the call of this task."""
        page = 0
        while True:
            found = await self._store.list_messages(
                task.thread_id or "",
                resource_id=task.resource_id,
                page=page,
                per_page=_PAGE,
                order_by=OrderBy(field="createdAt", direction="DESC"),
                include_total=False,
            )
            for message in found.messages:
                if find_task_part(message.content, task) is not None:
                    return message
            if len(found.messages) < _PAGE:
                return None
            page += 1


def _copied(content: Mapping[str, Any]) -> dict[str, Any]:
    """So deep that ``apply_task`` changes nobody else's."""
    own = dict(content)
    own["parts"] = [dict(part) for part in content.get("parts") or ()]
    own["metadata"] = dict(content.get("metadata") or {})
    return own


def _lone_message(task: BackgroundTask, clock: Clock) -> Message:
    """The call and its result, for a transcript that holds neither."""
    content: dict[str, Any] = {
        "format": 2,
        "parts": [
            {
                "type": "tool-invocation",
                "toolInvocation": {
                    "state": "call",
                    "toolCallId": task.tool_call_id,
                    "toolName": task.tool_name,
                    "args": task.args,
                },
            }
        ],
    }
    apply_task(content, task)
    return Message(
        # The same for the same task: whoever writes it a second time replaces it.
        id=uuid5("background-task-result", task.id),
        role="assistant",
        thread_id=task.thread_id,
        resource_id=task.resource_id,
        created_at=clock.now(),
        content=content,
    )
