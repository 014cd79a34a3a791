"""The transcript of one run: what was remembered, what came in, what the model answered.

A :class:`MessageList` belongs to one run and only its methods change it. Entries are
:class:`ListedMessage` objects whose ``content`` is the stored form (streaming.md 10).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.isotime import epoch_ms, from_epoch_ms, parse_iso, to_iso_ms
from mastra_core.base.jsonjs import sanitize_copy
from mastra_core.messages.signals import message_from_signal, signal_from_message
from mastra_core.wire.messages import Message
from mastra_core.wire.signals import Signal

__all__ = ("ListedMessage", "MessageList", "MessageSource", "message_of")

MessageSource = Literal["memory", "input", "response", "context"]


@dataclass(slots=True)
class ListedMessage:
    """One message of the list; ``saved`` is False while storage doesn't have this content."""

    id: str
    role: str
    created_at: datetime
    content: dict[str, Any]
    source: MessageSource
    type: str | None = None
    saved: bool = False
    #: Members that a peer wrote and we don't know.
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The parts in stream order; the live list."""
        parts = self.content.setdefault("parts", [])
        assert isinstance(parts, list)
        return parts

    @property
    def metadata(self) -> dict[str, Any]:
        """``content.metadata``, created when asked for."""
        metadata = self.content.setdefault("metadata", {})
        assert isinstance(metadata, dict)
        return metadata

    @property
    def is_sealed(self) -> bool:
        """Nothing may be merged into it any more (streaming.md 10.3)."""
        mastra = (self.content.get("metadata") or {}).get("mastra") or {}
        return bool(mastra.get("responseBoundary") or mastra.get("sealed"))

    @property
    def is_transient(self) -> bool:
        """A signal that storage must never see (signals.md 2.2)."""
        signal = (self.content.get("metadata") or {}).get("signal")
        return isinstance(signal, Mapping) and signal.get("transient") is True

    def find_call(self, tool_call_id: str) -> dict[str, Any] | None:
        """The invocation part of the newest call with this id, or None."""
        # Some models count anew in every step, so an id may stand in a message twice.
        newest_first: Iterator[dict[str, Any]] = reversed(self.parts)
        for part in newest_first:
            if part.get("type") == "tool-invocation":
                invocation = part.get("toolInvocation") or {}
                if invocation.get("toolCallId") == tool_call_id:
                    return part
        return None


class MessageList:
    """The messages of a run, in time order, and the system messages beside them."""

    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        thread_id: str | None = None,
        resource_id: str | None = None,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self.thread_id = thread_id
        self.resource_id = resource_id
        self.messages: list[ListedMessage] = []
        #: When the thread's newest message was said, if that one isn't in the list.
        self.last_time: datetime | None = None
        self.system_messages: list[dict[str, Any]] = []
        #: Messages of one request only, by tag.
        self.tagged_system_messages: dict[str, list[dict[str, Any]]] = {}

    # -- adding ---------------------------------------------------------------------------

    def next_time(self) -> datetime:
        """A time after everything in the list, and in its thread (streaming.md 10.3)."""
        now = self._clock.now()
        times = [message.created_at for message in self.messages]
        if self.last_time is not None:
            times.append(self.last_time)
        return max(now, max(times) + timedelta(milliseconds=1)) if times else now

    def add_remembered(self, messages: Iterable[Message]) -> None:
        """Put stored messages before everything else; an input copy with one id gives way."""
        remembered = [_listed(message, "memory", saved=True) for message in messages]
        known = {message.id for message in remembered}
        self.messages = remembered + [m for m in self.messages if m.id not in known]
        self.sort()

    def add_input(self, messages: Iterable[Mapping[str, Any]]) -> list[ListedMessage]:
        """
        Append what the caller gave, in stored form (``detect.messages_from_input``).

        Returns:
            The entries that were added; tool outcomes for open calls are merged into the
            message that holds the call instead.
        """
        added = []
        for given in messages:
            if given.get("role") == "system":
                self.system_messages.append({"role": "system", "content": _text_of(given)})
                continue
            if self._is_remembered(given):
                self._answer_open_calls(given)
                continue
            if self._merge_tool_outcomes(given):
                continue
            created_at = self.next_time()
            content = dict(given["content"])
            stamp = epoch_ms(self._clock.now())
            content["parts"] = [
                part if "createdAt" in part else {**part, "createdAt": stamp}
                for part in content.get("parts", ())
            ]
            entry = ListedMessage(
                id=str(given.get("id") or self._ids.new("message")),
                role=str(given["role"]),
                created_at=created_at,
                content=content,
                source="input",
                type=given.get("type"),
            )
            self.messages.append(entry)
            added.append(entry)
        return added

    def _is_remembered(self, given: Mapping[str, Any]) -> bool:
        """Has memory this very message? Then that one counts (streaming.md 10.3)."""
        known = self.find(str(given["id"])) if given.get("id") else None
        return known is not None and known.source == "memory"

    def _answer_open_calls(self, given: Mapping[str, Any]) -> None:
        """Of what a page shows of a remembered message only outcomes of open calls are news."""
        for part in given["content"].get("parts", ()):
            invocation = part.get("toolInvocation") or {}
            if invocation.get("state") not in ("result", "output-error"):
                continue
            holder = self.find_call(invocation["toolCallId"])
            if holder is None or _waits_for_somebody(holder, invocation["toolCallId"]):
                continue
            held = holder.find_call(invocation["toolCallId"])
            if held is not None and held["toolInvocation"].get("state") == "call":
                self._merge_tool_outcomes({"content": {"parts": [part]}})

    def _merge_tool_outcomes(self, given: Mapping[str, Any]) -> bool:
        """Fill results of client tools into the open calls that wait for them."""
        parts = given["content"].get("parts", ())
        outcomes = [
            part["toolInvocation"]
            for part in parts
            if part.get("type") == "tool-invocation"
            and part["toolInvocation"].get("state") in ("result", "output-error")
        ]
        if not outcomes or len(outcomes) != len(parts):
            return False
        merged = 0
        for invocation in outcomes:
            holder = self.find_call(invocation["toolCallId"])
            if holder is None:
                continue
            part = holder.find_call(invocation["toolCallId"])
            assert part is not None
            part["toolInvocation"] = {**part["toolInvocation"], **invocation}
            part.pop("createdAt", None)
            holder.saved = False
            merged += 1
        return merged == len(outcomes)

    def add_signal(self, signal: Signal) -> Signal:
        """
        Let a signal enter the transcript (signals.md 4.2); returns the rewritten signal.

        Its new creation time is its place in the transcript; the old one survives as
        ``accepted_at`` when there was none.
        """
        created_at = self.next_time()
        entered = signal.replace(
            created_at=created_at, accepted_at=signal.accepted_at or signal.created_at
        )
        if signal.transient:
            self._drop_transient_twin(entered)
        self.messages = [m for m in self.messages if m.id != entered.id]
        row = message_from_signal(
            entered, thread_id=self.thread_id or "", resource_id=self.resource_id
        )
        stamp = epoch_ms(self._clock.now())
        content = dict(row.content)
        content["parts"] = [{**part, "createdAt": stamp} for part in content["parts"]]
        self.messages.append(
            ListedMessage(
                id=entered.id,
                role="signal",
                created_at=created_at,
                content=content,
                source="input",
                type=entered.tag_name,
            )
        )
        return entered

    def _drop_transient_twin(self, signal: Signal) -> None:
        def is_twin(message: ListedMessage) -> bool:
            if not message.is_transient:
                return False
            other = signal_from_message(message_of(message, self))
            return (other.type, other.tag_name, other.contents) == (
                signal.type,
                signal.tag_name,
                signal.contents,
            )

        self.messages = [m for m in self.messages if not is_twin(m)]

    def response(self, message_id: str) -> ListedMessage:
        """The assistant message that collects the answer under this id; made when needed."""
        for message in reversed(self.messages):
            if message.id == message_id:
                return message
        entry = ListedMessage(
            id=message_id,
            role="assistant",
            created_at=self.next_time(),
            content={"format": 2, "parts": []},
            source="response",
        )
        self.messages.append(entry)
        return entry

    def find(self, message_id: str) -> ListedMessage | None:
        """The entry with this id, or None."""
        return next((m for m in self.messages if m.id == message_id), None)

    def find_call(self, tool_call_id: str) -> ListedMessage | None:
        """The newest message that holds this call, or None."""
        for message in reversed(self.messages):
            if message.role == "assistant" and message.find_call(tool_call_id) is not None:
                return message
        return None

    def seal(self, message_id: str) -> None:
        """What follows is a new message: mark the end of this one."""
        message = self.find(message_id)
        if message is not None and message.parts:
            message.metadata.setdefault("mastra", {})["responseBoundary"] = True
            message.saved = False

    def remove(self, message_id: str) -> None:
        """Take one message out, as if it had never been there."""
        self.messages = [m for m in self.messages if m.id != message_id]

    def update_tool_invocation(self, patch: Mapping[str, Any]) -> bool:
        """
        Change the newest call with this ``toolCallId``; False if there is none.

        Args:
            patch: Members of the invocation, or a whole part that holds one.
        """
        members = patch.get("toolInvocation", patch)
        holder = self.find_call(str(members.get("toolCallId")))
        if holder is None:
            return False
        part = holder.find_call(str(members["toolCallId"]))
        assert part is not None
        part["toolInvocation"] = {**part["toolInvocation"], **members}
        holder.saved = False
        return True

    def update_message_metadata_by_tool_call_id(
        self, tool_call_id: str, patch: Mapping[str, Any]
    ) -> bool:
        """Lay members over the metadata of the message that holds a call."""
        holder = self.find_call(tool_call_id)
        if holder is None:
            return False
        holder.metadata.update(patch)
        holder.saved = False
        return True

    def add_system(self, content: str, *, tag: str | None = None) -> None:
        """
        Tell the model something beside the instructions.

        Without a tag it is gone after the step that it was added in; with one it stays until
        ``clear_system_messages``.
        """
        message = {"role": "system", "content": content}
        if tag is None:
            self.system_messages.append(message)
        else:
            self.tagged_system_messages.setdefault(tag, []).append(message)

    def clear_system_messages(self, tag: str) -> None:
        """Take back what was added under a tag."""
        self.tagged_system_messages.pop(tag, None)

    def remove_by_ids(self, message_ids: Iterable[str]) -> list[ListedMessage]:
        """Take messages out; what was taken."""
        gone = set(message_ids)
        removed = [m for m in self.messages if m.id in gone]
        self.messages[:] = [m for m in self.messages if m.id not in gone]
        return removed

    # -- reading --------------------------------------------------------------------------

    def of_source(self, *sources: MessageSource) -> list[ListedMessage]:
        """The entries that came from there, in order."""
        return [m for m in self.messages if m.source in sources]

    def unsaved(self) -> list[ListedMessage]:
        """What storage should get: content that it lacks, transient signals excluded."""
        return [
            m
            for m in self.messages
            if not m.saved
            and m.source != "context"
            and not m.is_transient
            and (m.parts or m.role != "assistant")
        ]

    def to_messages(self, entries: Sequence[ListedMessage]) -> list[Message]:
        """The rows of these entries; their content is copied."""
        return [message_of(entry, self) for entry in entries]

    def sort(self) -> None:
        """Bring the messages into the order of their times."""
        self.messages.sort(key=lambda message: message.created_at)

    # -- state of a suspended run (streaming.md 5.6) ----------------------------------------

    def serialize(self) -> dict[str, Any]:
        """The ``messageList`` member of a stream state."""
        groups: dict[MessageSource, str] = {
            "memory": "memoryMessages",
            "input": "newUserMessages",
            "response": "newResponseMessages",
            "context": "userContextMessages",
        }
        state: dict[str, Any] = {
            "messages": [self._serialize_message(m) for m in self.messages if not m.is_transient],
            "systemMessages": sanitize_copy(self.system_messages),
            "taggedSystemMessages": sanitize_copy(self.tagged_system_messages),
            "memoryInfo": self._memory_info(),
            "_agentNetworkAppend": False,
        }
        for source, name in groups.items():
            state[name] = [m.id for m in self.messages if m.source == source and not m.saved]
        state["memoryMessages"] = [m.id for m in self.messages if m.source == "memory"]
        for source, name in groups.items():
            state[f"{name}Persisted"] = [
                m.id for m in self.messages if m.source == source and m.saved
            ]
        return state

    def _memory_info(self) -> dict[str, str] | None:
        if self.thread_id is None:
            return None
        info = {"threadId": self.thread_id}
        if self.resource_id is not None:
            info["resourceId"] = self.resource_id
        return info

    def _serialize_message(self, message: ListedMessage) -> dict[str, Any]:
        row: dict[str, Any] = {
            "id": message.id,
            "role": message.role,
            "content": sanitize_copy(message.content),
            "createdAt": to_iso_ms(message.created_at),
        }
        if self.thread_id is not None:
            row["threadId"] = self.thread_id
        if self.resource_id is not None:
            row["resourceId"] = self.resource_id
        if message.type is not None:
            row["type"] = message.type
        return {**message.extra, **row}

    @classmethod
    def deserialize(cls, state: Mapping[str, Any], *, clock: Clock, ids: Ids) -> MessageList:
        """Read what :meth:`serialize`, or a Node process, wrote."""
        info = state.get("memoryInfo") or {}
        restored = cls(
            clock=clock,
            ids=ids,
            thread_id=info.get("threadId"),
            resource_id=info.get("resourceId"),
        )
        restored.system_messages = list(state.get("systemMessages") or ())
        restored.tagged_system_messages = dict(state.get("taggedSystemMessages") or {})
        sources: dict[str, MessageSource] = {}
        saved: set[str] = set()
        names: tuple[tuple[str, MessageSource], ...] = (
            ("memoryMessages", "memory"),
            ("newUserMessages", "input"),
            ("newResponseMessages", "response"),
            ("userContextMessages", "context"),
        )
        for name, source in names:
            for message_id in state.get(f"{name}Persisted") or ():
                sources.setdefault(message_id, source)
                saved.add(message_id)
            for message_id in state.get(name) or ():
                sources.setdefault(message_id, source)
        for row in state.get("messages") or ():
            restored.messages.append(_listed_from_state(row, sources, saved))
        restored.sort()
        return restored


def _listed_from_state(
    row: Mapping[str, Any], sources: Mapping[str, MessageSource], saved: set[str]
) -> ListedMessage:
    known = ("id", "role", "content", "createdAt", "threadId", "resourceId", "type")
    role = str(row["role"])
    fallback: MessageSource = "response" if role == "assistant" else "input"
    created = row.get("createdAt")
    return ListedMessage(
        id=str(row["id"]),
        role=role,
        created_at=parse_iso(created) if isinstance(created, str) else from_epoch_ms(created or 0),
        content=dict(row["content"]),
        source=sources.get(str(row["id"]), fallback),
        type=row.get("type"),
        saved=str(row["id"]) in saved,
        extra={key: value for key, value in row.items() if key not in known},
    )


def _listed(message: Message, source: MessageSource, *, saved: bool) -> ListedMessage:
    return ListedMessage(
        id=message.id,
        role=message.role,
        created_at=message.created_at,
        content=dict(message.content),
        source=source,
        type=message.type,
        saved=saved,
        extra=dict(message.model_extra or {}),
    )


def message_of(entry: ListedMessage, owner: MessageList) -> Message:
    """The row of one entry, under the thread of its list."""
    members: dict[str, Any] = {
        "id": entry.id,
        "role": entry.role,
        "created_at": entry.created_at,
        "content": sanitize_copy(entry.content),
        **entry.extra,
    }
    if owner.thread_id is not None:
        members["thread_id"] = owner.thread_id
    if owner.resource_id is not None:
        members["resource_id"] = owner.resource_id
    if entry.type is not None:
        members["type"] = entry.type
    return Message(**members)


def _text_of(given: Mapping[str, Any]) -> str:
    return "\n".join(
        str(part.get("text", ""))
        for part in given["content"].get("parts", ())
        if part.get("type") == "text"
    )


def _waits_for_somebody(message: ListedMessage, tool_call_id: str) -> bool:
    """Is it a call that runs here, once it is approved or answered?"""
    metadata = message.content.get("metadata") or {}
    return any(
        tool_call_id in (metadata.get(member) or ())
        for member in ("pendingToolApprovals", "suspendedTools")
    )
