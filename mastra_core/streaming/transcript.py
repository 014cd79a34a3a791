"""What a run answered, in the three forms that a response carries (streaming.md 5.1).

Steps keep the ids of their messages only; the forms are made when somebody asks for them, each
message once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from mastra_core.messages.message_list import ListedMessage, MessageList, MessageSource
from mastra_core.messages.to_prompt import model_messages
from mastra_core.messages.ui import ui_messages
from mastra_core.wire.messages import Message

__all__ = ("Transcript", "step_content")


#: Model messages, UI messages, row.
_Forms: TypeAlias = tuple[list[Any], list[Any], dict[str, Any]]


class Transcript:
    """The messages of a run as responses show them; made anew for each look at them."""

    def __init__(self, messages: MessageList) -> None:
        self._messages = messages
        self._made: dict[str, _Forms] = {}
        self._rows: dict[str, Message] = {}

    def rows(self, *sources: MessageSource) -> list[dict[str, Any]]:
        """The stored form of the messages of these sources, or of all."""
        entries = self._messages.of_source(*sources) if sources else self._messages.messages
        return [self._row(entry).to_wire() for entry in entries]

    def _row(self, entry: ListedMessage) -> Message:
        known = self._rows.get(entry.id)
        if known is None:
            [known] = self._messages.to_messages([entry])
            self._rows[entry.id] = known
        return known

    def response(self, facts: Mapping[str, Any], message_ids: Sequence[str]) -> dict[str, Any]:
        """The facts with ``messages``, ``uiMessages`` and ``dbMessages`` beside them."""
        made = [form for form in map(self._forms, message_ids) if form is not None]
        return {
            **facts,
            "messages": [turn for turns, _, _ in made for turn in turns],
            "uiMessages": [shown for _, many, _ in made for shown in many],
            "dbMessages": [row for _, _, row in made],
        }

    def steps(
        self, steps: Sequence[Mapping[str, Any]], message_ids: Sequence[Sequence[str] | None]
    ) -> list[dict[str, Any]]:
        """The steps as a caller sees them; those without ids have their responses already."""
        return [self.step(step, ids) for step, ids in zip(steps, message_ids, strict=True)]

    def step(self, step: Mapping[str, Any], message_ids: Sequence[str] | None) -> dict[str, Any]:
        """One step with everything that follows from it."""
        full = {**step, **_calls_by_kind(step), "content": step_content(step)}
        if message_ids is not None:
            full["response"] = self.response(step.get("response") or {}, message_ids)
        return full

    def _forms(self, message_id: str) -> _Forms | None:
        known = self._made.get(message_id)
        if known is None:
            entry = self._messages.find(message_id)
            if entry is None:
                return None
            message = self._row(entry)
            known = (model_messages([entry]), ui_messages([message]), message.to_wire())
            self._made[message_id] = known
        return known


def _calls_by_kind(step: Mapping[str, Any]) -> dict[str, Any]:
    """Calls and results of tools that the agent knows, and of those that it doesn't."""
    made: dict[str, Any] = {}
    for member, name in (("toolCalls", "ToolCalls"), ("toolResults", "ToolResults")):
        chunks = step.get(member) or ()
        for kind, is_dynamic in (("static", False), ("dynamic", True)):
            made[kind + name] = [
                chunk
                for chunk in chunks
                if bool((chunk.get("payload") or chunk).get("dynamic")) is is_dynamic
            ]
    return made


def step_content(step: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of a step: reasoning, text, files and sources, calls, results."""
    content: list[dict[str, Any]] = [dict(part) for part in step.get("reasoning") or ()]
    if step.get("text"):
        content.append({"type": "text", "text": step["text"]})
    for member, kind in (
        ("sources", "source"),
        ("files", "file"),
        ("toolCalls", "tool-call"),
        ("toolResults", "tool-result"),
    ):
        content.extend(
            {"type": kind, **(chunk.get("payload") or {})} for chunk in step.get(member) or ()
        )
    return content
