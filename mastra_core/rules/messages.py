"""Batches of messages and changes to them: checks, duplicates, merging (streaming.md 10.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from mastra_core.base.isotime import epoch_ms
from mastra_core.contracts.storage.memory import DateRange, OrderBy
from mastra_core.errors import StorageArgumentError
from mastra_core.rules.arguments import check_text
from mastra_core.rules.metadata import metadata_matches
from mastra_core.rules.paging import bounds_ms
from mastra_core.wire.messages import FILLER_TYPE, Message

__all__ = (
    "check_include",
    "check_messages",
    "check_patch",
    "collapse_batch",
    "joined",
    "matcher",
    "merge_patch",
    "refuse_move",
    "threads_touched",
    "without_filler",
)

#: Members of a patch that replace the stored value.
_REPLACED: Final = ("role", "type", "thread_id", "resource_id")
#: Members that a stored message can't do without.
_NEEDED: Final = ("id", "role", "thread_id", "resource_id")


def check_messages(messages: Iterable[Message]) -> None:
    """
    Refuse a batch with a message that has no place.

    Raises:
        StorageArgumentError: A message lacks its id, role, thread or resource.
    """
    for message in messages:
        given = message.__dict__
        for name in _NEEDED:
            value = given[name]
            if type(value) is not str or not value:
                check_text(value, f"{name} of message {message.id!r}")


def collapse_batch(messages: Iterable[Message]) -> list[Message]:
    """
    The batch with each id once, in the place where it came first.

    The last content and the first creation time win.
    """
    collapsed: dict[str, Message] = {}
    for message in messages:
        first = collapsed.get(message.id)
        collapsed[message.id] = (
            message if first is None else message.replace(created_at=first.created_at)
        )
    return list(collapsed.values())


def refuse_move(stored: Message, message: Message) -> None:
    """
    Saving never moves a message to another thread (field report R136).

    Raises:
        StorageArgumentError: The stored message belongs to another thread.
    """
    if stored.thread_id != message.thread_id:
        raise StorageArgumentError(
            f"Message {message.id!r} belongs to thread {stored.thread_id!r}; saving it to thread "
            f"{message.thread_id!r} would move it.",
            hint="Move it with update_messages.",
            details={"messageId": message.id},
        )


def check_patch(patch: Mapping[str, Any]) -> None:
    """
    Refuse a patch that names no message or members that can't be changed.

    Raises:
        StorageArgumentError: There is no id, an unknown member, or a member of a wrong kind.
    """
    message_id = check_text(patch.get("id"), "id of a patch")
    unknown = patch.keys() - {"id", "content", *_REPLACED}
    if unknown:
        raise StorageArgumentError(
            f"The patch of message {message_id!r} has members that can't be changed: "
            f"{', '.join(sorted(map(repr, unknown)))}."
        )
    for name in ("role", "thread_id", "resource_id"):
        if name in patch:
            check_text(patch[name], f"{name} of message {message_id!r}")
    content = patch.get("content", {})
    if not isinstance(content, Mapping):
        raise StorageArgumentError(
            f"content of message {message_id!r} must be an object, not {content!r}."
        )


def merge_patch(message: Message, patch: Mapping[str, Any]) -> Message:
    """
    The message with a checked patch: content and its metadata merge one level deep, the
    other members replace.
    """
    changes: dict[str, Any] = {name: patch[name] for name in _REPLACED if name in patch}
    if "content" in patch:
        changes["content"] = _merged_content(message.content, patch["content"])
    return without_filler(message.replace(**changes))


def _merged_content(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**stored, **given}
    old, new = stored.get("metadata"), given.get("metadata")
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        merged["metadata"] = {**old, **new}
    return merged


def without_filler(message: Message) -> Message:
    """The message as it is read: the filler of the ``type`` column means no type."""
    return message.replace(type=None) if message.type == FILLER_TYPE else message


def threads_touched(*messages: Message | None) -> set[str]:
    """The threads that get a new ``updated_at``."""
    return {message.thread_id for message in messages if message and message.thread_id}


def check_include(counts: Sequence[object]) -> None:
    """
    Refuse a window of neighbours that can't be.

    Raises:
        StorageArgumentError: A count isn't a whole number >= 0.
    """
    for count in counts:
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise StorageArgumentError(
                f"The number of neighbouring messages must be a whole number >= 0, not {count!r}."
            )


def matcher(
    thread_ids: Sequence[str],
    resource_id: str | None,
    date_range: DateRange | None,
    metadata: Mapping[str, Any],
) -> Callable[[Message], bool]:
    """Whether an included message would be among the matches of the filter, too."""
    low, high = bounds_ms(date_range)

    def is_match(message: Message) -> bool:
        at = epoch_ms(message.created_at)
        if (low is not None and at < low) or (high is not None and at >= high):
            return False
        if message.thread_id not in thread_ids:
            return False
        if resource_id is not None and message.resource_id != resource_id:
            return False
        return metadata_matches(message.content.get("metadata"), metadata)

    return is_match


def joined(page: list[Message], windows: Iterable[Message], order: OrderBy) -> list[Message]:
    """Page and windows without doubles, in the order that was asked for."""
    union = {message.id: message for message in (*page, *windows)}
    return sorted(
        union.values(), key=lambda m: (m.created_at, m.id), reverse=order.direction == "DESC"
    )
