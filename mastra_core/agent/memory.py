"""An agent's memory: threads and messages in the store (streaming.md 10)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mastra_core.agent.titles import TitleOptions
from mastra_core.base.clock import Clock
from mastra_core.base.unset import UNSET
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.contracts.storage import MemoryStorage, OrderBy
from mastra_core.errors import RunArgumentError, StorageError, shown
from mastra_core.messages.answers import is_answer
from mastra_core.messages.recalling import is_row_hidden
from mastra_core.messages.signals import message_from_signal, signal_from_message
from mastra_core.rules.owners import lost_if_refused
from mastra_core.wire.messages import Message
from mastra_core.wire.threads import Thread
from mastra_core.workflows.agent_snapshot import ParkedRun

__all__ = ("AgentMemory", "MemoryOptions", "close_parked_calls", "memory_options")


#: Among so many newest messages an answer is looked for.
_ANSWERS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """How much of a thread a run remembers."""

    #: Newest messages that go into the prompt; None remembers all.
    last_messages: int | None = 40
    #: Give threads without a title one: True, or how.
    generate_title: bool | TitleOptions = False


def memory_options(given: Mapping[str, Any]) -> MemoryOptions:
    """
    Options of memory under their names here, or those on the wire.

    Raises:
        RunArgumentError: One is unknown, or can't be.
    """
    names = {"lastMessages": "last_messages", "generateTitle": "generate_title"}
    members = {names.get(name, name): value for name, value in given.items()}
    limit = members.get("last_messages")
    if limit is False:
        # As peers say that nothing is remembered.
        members["last_messages"] = limit = 0
    is_count = isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0
    title = members.get("generate_title", False)
    if (
        set(members) - {"last_messages", "generate_title"}
        or not (limit is None or is_count)
        or not isinstance(title, bool | TitleOptions)
    ):
        raise RunArgumentError(
            "Options of memory are last_messages, a number or None, and generate_title, "
            f"not {shown(dict(given))}.",
            id="AGENT_INVALID_OPTION",
            details={"argument": "memory"},
        )
    return MemoryOptions(**members)


class AgentMemory:
    """Reads and writes the threads of one agent."""

    def __init__(self, store: MemoryStorage, *, clock: Clock, options: MemoryOptions) -> None:
        self.store = store
        self._clock = clock
        self._options = options

    def guarded(self, fence: FenceToken) -> AgentMemory:
        """The memory for a run that owns its thread: the store refuses it once it doesn't."""
        return AgentMemory(self.store.guarded(fence), clock=self._clock, options=self._options)

    def titles(self, options: MemoryOptions | None = None) -> TitleOptions | None:
        """How titles are made; None if they aren't."""
        wanted = (options or self._options).generate_title
        if isinstance(wanted, TitleOptions):
            return wanted
        return TitleOptions() if wanted else None

    def remembers_nothing(self, options: MemoryOptions | None = None) -> bool:
        """Do runs see none of the messages before them?"""
        return (options or self._options).last_messages == 0

    async def open_thread(
        self,
        thread_id: str,
        resource_id: str,
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Thread:
        """
        The thread, made if it isn't there; one atomic step (field report R133).

        Raises:
            RunArgumentError: It belongs to another resource
                (id ``AGENT_MEMORY_THREAD_RESOURCE_MISMATCH``).
            LeaseLostError: It is another process's by now.
        """
        thread = await self.store.get_thread_by_id(thread_id)
        if thread is None:
            now = self._clock.now()
            thread = Thread(
                id=thread_id,
                resource_id=resource_id,
                title=title or "",
                metadata=dict(metadata) if metadata is not None else None,
                created_at=now,
                updated_at=now,
            )
            with lost_if_refused():
                thread = await self.store.create_thread(thread)
        elif metadata or (title and not thread.title):
            with lost_if_refused():
                thread = await self.store.update_thread(
                    thread_id,
                    metadata=metadata or UNSET,
                    title=title or UNSET,
                    expected_title="" if title else UNSET,
                )
        _check_owner(thread, resource_id)
        return thread

    async def open_and_remember(
        self,
        thread_id: str,
        resource_id: str,
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        options: MemoryOptions | None = None,
    ) -> tuple[Thread, list[Message]]:
        """
        ``open_thread`` and ``remembered`` at once, since each is a way to the store and back.

        Raises:
            RunArgumentError: As ``open_thread``.
            LeaseLostError: As ``open_thread``.
        """
        reading = asyncio.ensure_future(self.remembered(thread_id, resource_id, options=options))
        try:
            thread = await self.open_thread(thread_id, resource_id, title=title, metadata=metadata)
        except BaseException:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            raise
        return thread, await reading

    async def add_row(self, message: Message) -> None:
        """
        Store a signal's row beside the runs, behind the thread's messages; the thread isn't made
        if it isn't there (notifications.md 9), since the next run does that.

        Raises:
            RunArgumentError: The thread belongs to another resource
                (id ``AGENT_MEMORY_THREAD_RESOURCE_MISMATCH``).
        """
        thread = await self.store.get_thread_by_id(message.thread_id or "")
        if thread is not None:
            _check_owner(thread, message.resource_id or "")
        last = None
        with suppress(StorageError):
            # Better stored in a wrong place than not at all.
            last = await self.last_time(message.thread_id or "")
        if last is not None and message.created_at < last:
            # The clock of who wrote that one is ahead; in its place nobody might look at this one.
            message = _moved(message, last + timedelta(milliseconds=1))
        await self.save([message])

    async def remembered(
        self, thread_id: str, resource_id: str, *, options: MemoryOptions | None = None
    ) -> list[Message]:
        """The newest messages of the thread, oldest first."""
        limit = (options or self._options).last_messages
        if limit == 0:
            return []
        page = await self.store.list_messages(
            thread_id,
            resource_id=resource_id,
            per_page=limit if limit is not None else False,
            order_by=OrderBy(field="createdAt", direction="DESC"),
            include_total=False,
        )
        return list(reversed(page.messages))

    async def last_time(self, thread_id: str) -> datetime | None:
        """When the newest message of the thread was said; clocks of processes may be behind it."""
        page = await self.store.list_messages(
            thread_id,
            per_page=1,
            order_by=OrderBy(field="createdAt", direction="DESC"),
            include_total=False,
        )
        return page.messages[0].created_at if page.messages else None

    async def recall(
        self,
        thread_id: str,
        resource_id: str,
        *,
        per_page: int | None = 40,
        hide_signals: bool | Sequence[str] | None = None,
        include_system_reminders: bool = False,
    ) -> list[Message]:
        """
        The newest messages of the thread for somebody who looks back, oldest first.

        Args:
            thread_id: The thread.
            resource_id: Whose it is.
            per_page: How many rows are read; None reads all. Those that are hidden count.
            hide_signals: True hides all signals, False none, a list those of the named stored
                types; by default reminders are hidden.
            include_system_reminders: Show reminders, too.
        """
        page = await self.store.list_messages(
            thread_id,
            resource_id=resource_id,
            per_page=per_page if per_page is not None else False,
            order_by=OrderBy(field="createdAt", direction="DESC"),
            include_total=False,
        )
        return [
            message
            for message in reversed(page.messages)
            if not is_row_hidden(
                message,
                hide_signals=hide_signals,
                include_system_reminders=include_system_reminders,
            )
        ]

    async def save(self, messages: Sequence[Message]) -> None:
        """
        Upsert messages of a run in one transaction.

        Raises:
            LeaseLostError: Their thread is another process's by now.
        """
        with lost_if_refused():
            await self.store.save_messages(messages)

    async def load(self, message_ids: Sequence[str]) -> list[Message]:
        """Those that exist."""
        return await self.store.list_messages_by_id(message_ids)

    async def answered(self, thread_id: str, message_ids: Sequence[str]) -> set[str]:
        """
        Which of these stored messages are followed by an answer?

        One that broke off before it said anything is none.
        """
        rows = [row for row in await self.load(message_ids) if row.thread_id == thread_id]
        if not rows:
            return set()
        page = await self.store.list_messages(
            thread_id,
            per_page=_ANSWERS,
            order_by=OrderBy(field="createdAt", direction="DESC"),
            include_total=False,
        )
        answers = [row.created_at for row in page.messages if is_answer(row.role, row.content)]
        return {row.id for row in rows if any(row.created_at < answer for answer in answers)}


def _moved(row: Message, at: datetime) -> Message:
    """The row of a signal at another place of its thread."""
    signal = signal_from_message(row).replace(created_at=at)
    return message_from_signal(signal, thread_id=row.thread_id or "", resource_id=row.resource_id)


def _check_owner(thread: Thread, resource_id: str) -> None:
    if thread.resource_id != resource_id:
        raise RunArgumentError(
            f"Thread {thread.id!r} belongs to resource {thread.resource_id!r}, "
            f"not to {resource_id!r}.",
            id="AGENT_MEMORY_THREAD_RESOURCE_MISMATCH",
            details={"thread_id": thread.id, "resource_id": resource_id},
        )


async def close_parked_calls(memory: AgentMemory | None, parked: ParkedRun) -> None:
    """Take the marks of a cancelled run out of the message that holds its calls."""
    if memory is None or parked.thread_id is None:
        return
    for message in await memory.load([parked.message_id]):
        content = dict(message.content)
        metadata = dict(content.get("metadata") or {})
        for name in ("pendingToolApprovals", "suspendedTools"):
            metadata.pop(name, None)
        content["metadata"] = metadata
        await memory.save([message.replace(content=content)])
