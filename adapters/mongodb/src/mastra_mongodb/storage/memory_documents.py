"""Documents of messages; their content is JSON text, as Node writes it (streaming.md 10.5)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mastra_core.base.jsonjs import decode, encode
from mastra_core.errors import WireDecodeError
from mastra_core.wire.messages import FILLER_TYPE, Message
from mastra_mongodb.documents import json_from_member, trusted

__all__ = ("message_document", "messages_from")

logger = logging.getLogger(__name__)

_FIELDS: Final = frozenset({"id", "role", "created_at", "thread_id", "content"})
_BY_OPTIONS: Final = {
    (has_resource, has_type): _FIELDS
    | ({"resource_id"} if has_resource else frozenset())
    | ({"type"} if has_type else frozenset())
    for has_resource in (True, False)
    for has_type in (True, False)
}


def message_document(message: Message) -> dict[str, Any]:
    """All members of the document."""
    return {
        "id": message.id,
        "thread_id": message.thread_id,
        "content": encode(message.content),
        "role": message.role,
        "type": message.type or FILLER_TYPE,
        "createdAt": message.created_at,
        "resourceId": message.resource_id,
    }


def messages_from(documents: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The messages of many documents; one that can't be read is left out, with a warning."""
    found: list[Message] = []
    contents = _contents([document.get("content") for document in documents])
    for document, content in zip(documents, contents, strict=True):
        created_at = document.get("createdAt")
        if created_at is None or not isinstance(document.get("id"), str):
            logger.warning(
                "unreadable message left out", extra={"message_id": str(document.get("id"))}
            )
            continue
        kind, resource_id = document.get("type"), document.get("resourceId")
        if kind == FILLER_TYPE:
            kind = None
        values = {
            "id": document["id"],
            "role": document.get("role") or "",
            "created_at": created_at,
            "thread_id": document.get("thread_id"),
            "resource_id": resource_id,
            "type": kind,
            "content": content,
        }
        given = _BY_OPTIONS[resource_id is not None, kind is not None]
        found.append(trusted(Message, values, set(given)))
    return found


def _contents(texts: Sequence[Any]) -> list[dict[str, Any]]:
    """
    The contents of some documents.

    They are decoded in one go, which is cheaper; if one of them isn't what it should be,
    each by itself.
    """
    try:
        decoded = decode(f"[{','.join(texts)}]")
    except (WireDecodeError, TypeError):
        decoded = []
    if len(decoded) == len(texts) and all(type(content) is dict for content in decoded):
        return decoded  # type: ignore[no-any-return]  # looked at just now
    return [_content(text) for text in texts]


def _content(text: Any) -> dict[str, Any]:
    """One content; what older writers left as plain text is a text message."""
    if isinstance(text, dict):
        native: dict[str, Any] = json_from_member(text)
        return native
    try:
        content = decode(text)
    except (WireDecodeError, TypeError):
        content = None
    if isinstance(content, dict):
        return content
    plain = content if isinstance(content, str) else str(text)
    return {"format": 2, "parts": [{"type": "text", "text": plain}], "content": plain}
