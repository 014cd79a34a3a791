"""What a hook returns takes effect on the message list (processors.md 4)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

from mastra_core.errors import ProcessorError
from mastra_core.messages.detect import messages_from_input
from mastra_core.messages.message_list import ListedMessage, MessageList, MessageSource

__all__ = (
    "apply_messages",
    "apply_returned",
    "check_one_of_both",
    "check_own_list",
    "replace_system_messages",
)

logger = logging.getLogger(__name__)

_BOTH = "PROCESSOR_RETURNED_MESSAGES_AND_MESSAGE_LIST"
_FOREIGN_LIST = "PROCESSOR_RETURNED_EXTERNAL_MESSAGE_LIST"


def apply_returned(
    messages: MessageList,
    returned: object,
    *,
    stage: Sequence[ListedMessage],
    source: MessageSource,
    processor_id: str,
    phase: str,
) -> None:
    """
    Make the messages of a stage what a hook returned.

    Args:
        messages: The list of the run.
        returned: None, the list itself, messages, or ``{messages, system_messages}``.
        stage: The entries that the hook was about.
        source: Where messages count as coming from that the list doesn't know.
        processor_id: Who returned it.
        phase: From which hook.

    Raises:
        ProcessorError: It is none of these.
    """
    match returned:
        case None:
            return
        case MessageList():
            check_own_list(messages, returned, processor_id=processor_id, phase=phase)
        case {"messages": list() | tuple() as given, **rest} if set(rest) <= {"system_messages"}:
            apply_messages(messages, given, stage=stage, source=source)
            if "system_messages" in rest:
                replace_system_messages(messages, cast(Sequence[Any], rest["system_messages"]))
        case list() | tuple():
            apply_messages(messages, returned, stage=stage, source=source)
        case _:
            raise ProcessorError(
                processor_id=processor_id,
                phase=phase,
                reason=f"it returned {type(returned).__name__}, not messages",
            )


def check_own_list(
    messages: MessageList, returned: MessageList, *, processor_id: str, phase: str
) -> None:
    """
    Only the run's own list may come back.

    Raises:
        ProcessorError: It is another one.
    """
    if returned is not messages:
        raise ProcessorError(
            processor_id=processor_id,
            phase=phase,
            reason="it returned a message list that isn't the run's own",
            id=_FOREIGN_LIST,
        )


def check_one_of_both(given: object, own_list: object, *, processor_id: str, phase: str) -> None:
    """
    Messages come as such or as the list, never as both.

    Raises:
        ProcessorError: Both were returned.
    """
    if given is not None and own_list is not None:
        raise ProcessorError(
            processor_id=processor_id,
            phase=phase,
            reason="it returned both messages and a message list",
            id=_BOTH,
        )


def apply_messages(
    messages: MessageList,
    returned: Sequence[Any],
    *,
    stage: Sequence[ListedMessage],
    source: MessageSource,
) -> None:
    """Known messages keep their source, new ones get ``source``, missing ones are gone."""
    known = {entry.id: entry for entry in stage}
    kept: set[str] = set()
    for item in returned:
        if isinstance(item, ListedMessage) and known.get(item.id) is item:
            kept.add(item.id)
            continue
        for stored in _given(item):
            if stored["role"] == "system":
                messages.add_input([stored])
                continue
            entry = known.get(str(stored.get("id")))
            if entry is None:
                added = messages.add_input([stored])
                for new in added:
                    new.source = source
                kept.update(new.id for new in added)
            else:
                entry.role = str(stored["role"])
                entry.content = dict(stored["content"])
                entry.saved = False
                kept.add(entry.id)
    gone = [entry_id for entry_id in known if entry_id not in kept]
    if gone:
        logger.debug("a processor left messages out", extra={"message_ids": gone})
        messages.remove_by_ids(gone)


def replace_system_messages(messages: MessageList, given: Sequence[Any]) -> None:
    """These instead of all untagged system messages."""
    messages.system_messages[:] = [
        {**message, "role": "system"} if isinstance(message, Mapping) else _system(str(message))
        for message in given
    ]


def _system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def _given(item: Any) -> list[dict[str, Any]]:
    if isinstance(item, ListedMessage):
        item = {"id": item.id, "role": item.role, "content": item.content}
    return messages_from_input([item])
