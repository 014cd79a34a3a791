"""The tool with which an agent looks into its inbox (notifications.md 10, S24).

Listing shows records without their payload; reading sends the full signal, so the text
arrives with the next step and not in the tool's result.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError
from pydantic.alias_generators import to_camel

from mastra_core.base.clock import Clock, SystemClock
from mastra_core.contracts.signal_sink import SignalSink, SignalSinks, SignalTarget
from mastra_core.contracts.storage.notifications import NotificationsStorage
from mastra_core.contracts.tool import RequireApproval, ToolContext
from mastra_core.errors import (
    NotificationError,
    NotificationNotFoundError,
    StorageError,
    ToolInputError,
)
from mastra_core.notifications.agents import FindAgent, find_agent
from mastra_core.notifications.inbox import DEFAULT_LIST_LIMIT, UNREAD
from mastra_core.notifications.sending import Sent, send
from mastra_core.notifications.signals import create_notification_signal
from mastra_core.rules.notification_claims import full_signal_id
from mastra_core.wire.notifications import (
    NotificationPatch,
    NotificationPriority,
    NotificationRecord,
    NotificationStatus,
)

__all__ = ("TOOL_ID", "NotificationInboxTool", "create_notification_inbox_tool")

logger = logging.getLogger(__name__)

TOOL_ID: Final = "notification-inbox"

_DESCRIPTION: Final = (
    "Look into the notification inbox of this thread. 'list' and 'search' show records and mark "
    "unread ones as seen; 'read' has the full text of unread records delivered to you; "
    "'markSeen', 'dismiss' and 'archive' change one record."
)
_MARKS: Final = {"markSeen": "seen", "dismiss": "dismissed", "archive": "archived"}

_Outcome = Literal["delivered", "markedSeen", "unavailable", "alreadyRead"]


class _Input(BaseModel):
    """What the model gives."""

    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    action: Literal["list", "read", "markSeen", "dismiss", "archive", "search"]
    thread_id: str | None = Field(default=None, description="Another thread than this one.")
    id: str | None = Field(default=None, description="The record that is meant.")
    status: NotificationStatus | None = None
    priority: NotificationPriority | None = None
    source: str | None = None
    query: str | None = Field(default=None, description="What to search for.")
    limit: PositiveInt | None = None


def create_notification_inbox_tool(
    storage: NotificationsStorage,
    *,
    find: FindAgent | None = None,
    clock: Clock | None = None,
    allow_other_threads: bool = False,
) -> NotificationInboxTool:
    """
    The tool for one store.

    Args:
        storage: The inbox.
        find: Where signals of an agent go; the application around the calling agent is asked
            if it isn't given.
        clock: Where time comes from.
        allow_other_threads: Let agents name other threads; records of other resources than
            the caller's stay closed even then.
    """
    return NotificationInboxTool(
        storage, find=find, clock=clock or SystemClock(), allow_other_threads=allow_other_threads
    )


class NotificationInboxTool:
    """See ``create_notification_inbox_tool``."""

    id: str = TOOL_ID
    description: str = _DESCRIPTION
    require_approval: RequireApproval = False
    #: A page that was shown is not shown again.
    idempotent: bool = False
    can_suspend: bool = False

    def __init__(
        self,
        storage: NotificationsStorage,
        *,
        find: FindAgent | None,
        clock: Clock,
        allow_other_threads: bool,
    ) -> None:
        self._storage = storage
        self._find = find
        self._clock = clock
        self._allow_other_threads = allow_other_threads

    def input_json_schema(self) -> dict[str, Any]:
        """JSON schema of the arguments."""
        return _Input.model_json_schema(by_alias=True)

    def resume_json_schema(self) -> dict[str, Any] | None:
        """None: it never suspends."""
        return None

    def parse_input(self, value: Any) -> dict[str, Any]:
        """
        The arguments under their wire names, without those that weren't given.

        Raises:
            ToolInputError: They don't fit.
        """
        try:
            given = _Input.model_validate({} if value is None else value)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            where = ".".join(str(step) for step in problem["loc"]) or "input"
            raise ToolInputError(tool_name=TOOL_ID, reason=f"{where}: {problem['msg']}") from error
        if given.action == "search" and not (given.query or "").strip():
            raise ToolInputError(f"{TOOL_ID} search requires query", tool_name=TOOL_ID)
        if given.action in _MARKS and not (given.id or "").strip():
            raise ToolInputError(f"{TOOL_ID} {given.action} requires id", tool_name=TOOL_ID)
        return given.model_dump(by_alias=True, exclude_none=True)

    def parse_resume(self, value: Any) -> Any:
        """Never called: it never suspends."""
        return value

    async def execute(self, args: Any, context: ToolContext) -> dict[str, Any]:
        """
        Carry out one action.

        Raises:
            ToolInputError: The arguments don't fit, or the thread is not the caller's to see.
            NotificationNotFoundError: There is no such record.
            NotificationError: The agent of a record to read is unknown.
        """
        given = _Input.model_validate(self.parse_input(args))
        thread_id = self._thread_of(given, context)
        if given.action in _MARKS and given.id is not None:
            return await self._mark(thread_id, given.id, _MARKS[given.action], context)
        if given.action == "read":
            return await self._read(thread_id, given, context)
        return await self._page(thread_id, given, context)

    # -- whose inbox ----------------------------------------------------------------------

    def _thread_of(self, given: _Input, context: ToolContext) -> str:
        thread_id = given.thread_id or context.thread_id
        if not thread_id:
            raise ToolInputError(f"{TOOL_ID} requires a threadId", tool_name=TOOL_ID)
        if thread_id != context.thread_id and not (
            self._allow_other_threads and context.resource_id
        ):
            raise ToolInputError(
                f"{TOOL_ID} can't open thread {thread_id!r}: it is not the thread of this run.",
                tool_name=TOOL_ID,
            )
        return thread_id

    def _is_foreign(self, record: NotificationRecord, context: ToolContext) -> bool:
        """Of another thread and not of the caller's resource."""
        is_own_thread = record.thread_id == context.thread_id
        return not is_own_thread and record.resource_id != context.resource_id

    async def _record(
        self, thread_id: str, notification_id: str, context: ToolContext
    ) -> NotificationRecord:
        record = await self._storage.get_notification(thread_id, notification_id)
        if record is None:
            raise NotificationNotFoundError(notification_id=notification_id, thread_id=thread_id)
        if self._is_foreign(record, context):
            raise ToolInputError(
                f"{TOOL_ID} can't open {notification_id!r}: it belongs to another resource.",
                tool_name=TOOL_ID,
            )
        return record

    async def _list(
        self,
        thread_id: str,
        given: _Input,
        context: ToolContext,
        *,
        status: Sequence[str] | str | None,
        search: str | None,
        limit: int,
    ) -> list[NotificationRecord]:
        is_own_thread = thread_id == context.thread_id
        return await self._storage.list_notifications(
            thread_id,
            status=given.status or status,
            priority=given.priority,
            source=given.source,
            resource_id=None if is_own_thread else context.resource_id,
            search=search,
            limit=limit,
        )

    # -- looking --------------------------------------------------------------------------

    async def _page(self, thread_id: str, given: _Input, context: ToolContext) -> dict[str, Any]:
        """
        One page, and the unread ones of it marked.

        Marking moves ``updated_at``; since only unread ones are listed by default, the same
        call again shows the next page.
        """
        limit = given.limit or DEFAULT_LIST_LIMIT
        is_search = given.action == "search"
        found = await self._list(
            thread_id,
            given,
            context,
            status=None if is_search else UNREAD,
            search=given.query if is_search else None,
            limit=limit + 1,
        )
        page = found[:limit]
        seen = await self._mark_page(thread_id, page)
        return {
            "notifications": [_shown(record, seen.get(record.id)) for record in page],
            "hasMore": len(found) > limit,
            "markedSeen": len(seen),
        }

    async def _mark_page(
        self, thread_id: str, page: Sequence[NotificationRecord]
    ) -> dict[str, NotificationRecord]:
        """Those that became seen, by id; one write, and only of what is still unread."""
        unread = [record.id for record in page if record.status in UNREAD]
        if not unread:
            return {}
        try:
            marked = await self._storage.update_notifications_status(
                thread_id, unread, "seen", expected_statuses=UNREAD
            )
        except StorageError:
            logger.warning("notifications not marked as seen", exc_info=True)
            return {}
        return {record.id: record for record in marked}

    async def _mark(
        self, thread_id: str, notification_id: str, status: str, context: ToolContext
    ) -> dict[str, Any]:
        record = await self._record(thread_id, notification_id, context)
        written = await self._storage.update_notification(
            thread_id, notification_id, NotificationPatch(status=status)
        )
        return {"notification": (written or record).to_wire()}

    # -- reading --------------------------------------------------------------------------

    async def _read(self, thread_id: str, given: _Input, context: ToolContext) -> dict[str, Any]:
        if given.id:
            records = [await self._record(thread_id, given.id, context)]
        else:
            records = await self._list(
                thread_id,
                given,
                context,
                status=UNREAD,
                search=None,
                limit=given.limit or DEFAULT_LIST_LIMIT,
            )
        counts = {
            "delivered": 0,
            "markedSeen": 0,
            "unavailable": 0,
            "alreadyRead": 0,
        }
        for record in records:
            counts[await self._read_one(record, context)] += 1
        return {"message": _message(counts["delivered"]), **counts}

    async def _read_one(self, record: NotificationRecord, context: ToolContext) -> _Outcome:
        if record.status not in UNREAD:
            return "alreadyRead"
        if record.delivered_signal_id:
            await self._set_seen(record, NotificationPatch(status="seen"))
            return "markedSeen"
        agent_id = record.agent_id or context.agent_id
        resource_id = record.resource_id or context.resource_id
        sink = await self._sink(agent_id, context) if agent_id and resource_id else None
        if sink is None:
            return "unavailable"
        # The id follows from the record: reading again after a crash sends nothing twice.
        signal = create_notification_signal(
            record.replace(status="delivered"),
            signal_id=full_signal_id(record.thread_id, record.id, record.coalesced_count),
            created_at=self._clock.now(),
        )
        target = SignalTarget(resource_id=resource_id, thread_id=record.thread_id)
        sent = await send(sink, signal, target)
        if not isinstance(sent, Sent) or not sent.reaches_model:
            return "unavailable"
        await self._set_seen(
            record, NotificationPatch(status="seen", delivered_signal_id=signal.id)
        )
        return "delivered"

    async def _set_seen(self, record: NotificationRecord, patch: NotificationPatch) -> None:
        """Unless somebody put it away, or something new was merged into it."""
        await self._storage.update_notification(
            record.thread_id,
            record.id,
            patch,
            expected_statuses=UNREAD,
            expected_count=record.coalesced_count,
        )

    async def _sink(self, agent_id: str, context: ToolContext) -> SignalSink | None:
        """
        Where signals of the agent go; None if there is nobody to ask.

        Raises:
            NotificationError: The agent is unknown.
        """
        if self._find is not None:
            inbox = await find_agent(self._find, agent_id)
            sink = None if inbox is None else inbox.sink
        elif isinstance(context.mastra, SignalSinks):
            sink = context.mastra.signal_sink(agent_id)
        else:
            return None
        if sink is None:
            raise NotificationError(
                f"Agent with id {agent_id} not found", id="AGENT_NOTIFICATION_UNKNOWN_AGENT"
            )
        return sink


def _shown(record: NotificationRecord, seen: NotificationRecord | None) -> dict[str, Any]:
    """
    A record for the model: without payload and metadata, as seen if it now is.

    Something that was merged into it while it was marked is shown too, since nobody will
    bring it again.
    """
    shown = record
    if seen is not None:
        shown = seen if seen.coalesced_count != record.coalesced_count else record
    wire = shown.to_wire()
    wire.pop("payload", None)
    wire.pop("metadata", None)
    if seen is not None:
        wire["status"] = "seen"
    return wire


def _message(delivered: int) -> str:
    if not delivered:
        return "No unread notifications needed delivery."
    noun = "notification" if delivered == 1 else "notifications"
    return f"{delivered} {noun} will now be delivered."
