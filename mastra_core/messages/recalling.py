"""Which rows of a thread somebody who looks back is shown (signals.md 4.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mastra_core.wire.messages import Message

__all__ = ("is_row_hidden",)

#: Types of stored signals that only remind the model of something.
_REMINDERS: Final = ("reactive", "system-reminder")


def is_row_hidden(
    message: Message,
    *,
    hide_signals: bool | Sequence[str] | None,
    include_system_reminders: bool = False,
) -> bool:
    """
    Is this row left out?

    Args:
        message: The row.
        hide_signals: True hides all signals, False none, a list those of the named stored
            types; None hides reminders.
        include_system_reminders: Show reminders where None would hide them.
    """
    if hide_signals is None:
        return not include_system_reminders and _is_reminder(message)
    if message.role != "signal" or not hide_signals:
        return False
    return hide_signals is True or _stored_type(message) in hide_signals


def _stored_type(message: Message) -> str | None:
    metadata = message.content.get("metadata")
    signal = metadata.get("signal") if isinstance(metadata, Mapping) else None
    kind = signal.get("type") if isinstance(signal, Mapping) else None
    return kind if isinstance(kind, str) else message.type


def _is_reminder(message: Message) -> bool:
    if message.role == "signal":
        return _stored_type(message) in _REMINDERS
    if message.role != "user":
        return False
    metadata: Any = message.content.get("metadata")
    marks = metadata if isinstance(metadata, Mapping) else {}
    if marks.get("systemReminder") or marks.get("dynamicAgentsMdReminder"):
        return True
    texts = (
        part.get("text")
        for part in message.content.get("parts") or ()
        if isinstance(part, Mapping) and part.get("type") == "text"
    )
    return str(next(texts, "")).startswith("<system-reminder")
