"""Copies of threads: what the new thread and its messages look like (streaming.md 10.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from mastra_core.base.isotime import to_iso_ms
from mastra_core.rules.arguments import check_limit
from mastra_core.wire.messages import Message
from mastra_core.wire.threads import Thread

__all__ = ("cloned_messages", "cloned_thread", "messages_to_clone")


def messages_to_clone(
    messages: Sequence[Message],
    *,
    message_limit: int | None = None,
    message_ids: Sequence[str] | None = None,
) -> list[Message]:
    """
    Which messages of a thread, oldest first, go into its copy: the named ones, the newest n.

    Raises:
        StorageArgumentError: ``message_limit`` is below 1.
    """
    limit = check_limit(message_limit, "message_limit")
    wanted = None if message_ids is None else set(message_ids)
    chosen = [message for message in messages if wanted is None or message.id in wanted]
    return chosen if limit is None else chosen[-limit:]


def cloned_thread(
    source: Thread,
    messages: Sequence[Message],
    *,
    thread_id: str,
    now: datetime,
    resource_id: str | None = None,
    title: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Thread:
    """The new thread, which remembers where it comes from in ``metadata.clone``."""
    clone = {"sourceThreadId": source.id, "clonedAt": to_iso_ms(now)}
    if messages:
        clone["lastMessageId"] = messages[-1].id
    return Thread(
        id=thread_id,
        resource_id=resource_id or source.resource_id,
        title=title or (f"Clone of {source.title}" if source.title else ""),
        metadata={**(metadata or {}), "clone": clone},
        created_at=now,
        updated_at=now,
    )


def cloned_messages(
    messages: Sequence[Message], *, thread: Thread, new_id: Callable[[], str]
) -> list[Message]:
    """The same messages under new ids in the new thread; their times stay."""
    return [
        message.replace(id=new_id(), thread_id=thread.id, resource_id=thread.resource_id)
        for message in messages
    ]
