"""Rows of messages (streaming.md 10.1, 10.5)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from mastra_core.base.jsonjs import decode, encode, encode_each
from mastra_core.errors import WireDecodeError
from mastra_core.wire.base import trusted
from mastra_core.wire.messages import FILLER_TYPE, Message
from mastra_sql.dialect import SqlDialect
from mastra_sql.executor import Row

__all__ = ("MessageCodec",)

logger = logging.getLogger(__name__)

_FIELDS: Final = frozenset({"id", "role", "created_at", "thread_id", "content"})
#: The members that are set, by whether there are a resource and a type; to be copied.
_BY_OPTIONS: Final = {
    (has_resource, has_type): {
        *_FIELDS,
        *(("resource_id",) if has_resource else ()),
        *(("type",) if has_type else ()),
    }
    for has_resource in (True, False)
    for has_type in (True, False)
}


class MessageCodec:
    """Converts between rows, in the order of the table, and messages."""

    def __init__(self, dialect: SqlDialect) -> None:
        self._dialect = dialect

    def messages(self, rows: Sequence[Row]) -> list[Message]:
        """The messages of many rows; one whose time is none is left out, with a warning."""
        try:
            times: list[Any] = self._dialect.times_from([row[5] for row in rows])
        except WireDecodeError:
            times = [self._time(row) for row in rows]
        contents = _contents([row[2] for row in rows])
        found: list[Message] = []
        keep = found.append
        for row, content, created_at in zip(rows, contents, times, strict=True):
            if created_at is None:
                continue
            message_id, thread_id, _, role, kind, _, resource_id = row
            if kind == FILLER_TYPE:
                kind = None
            values = {
                "id": message_id,
                "role": role,
                "created_at": created_at,
                "thread_id": thread_id,
                "resource_id": resource_id,
                "type": kind,
                "content": content,
            }
            given = _BY_OPTIONS[resource_id is not None, kind is not None]
            keep(trusted(Message, values, given.copy()))
        return found

    def _time(self, row: Row) -> datetime | None:
        try:
            return self._dialect.time_from(row[5])
        except WireDecodeError as exc:
            logger.warning(
                "unreadable message left out", extra={"message_id": row[0], "error": str(exc)}
            )
            return None

    def values(self, message: Message) -> dict[str, Any]:
        """Parameters of all columns."""
        return self._values(message, encode(message.content))

    def all_values(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Parameters of all columns, of many messages."""
        contents = encode_each([message.content for message in messages])
        return [
            self._values(message, content.decode())
            for message, content in zip(messages, contents, strict=True)
        ]

    def _values(self, message: Message, content: str) -> dict[str, Any]:
        return {
            "id": message.id,
            "thread_id": message.thread_id,
            "content": content,
            "role": message.role,
            "type": message.type or FILLER_TYPE,
            "createdAt": self._dialect.time_value(message.created_at),
            "resourceId": message.resource_id,
        }


def _contents(texts: Sequence[Any]) -> list[dict[str, Any]]:
    """
    The contents of some columns.

    They are decoded in one go, which is cheaper; if one of them isn't what it should be,
    each by itself.
    """
    try:
        decoded = decode(f"[{','.join(texts)}]")
    except (WireDecodeError, TypeError):
        decoded = []
    if len(decoded) == len(texts) and set(map(type, decoded)) <= {dict}:
        return decoded  # type: ignore[no-any-return]  # looked at just now
    return [_content(text) for text in texts]


def _content(text: Any) -> dict[str, Any]:
    """The content of a column; what older writers left as plain text is a text message."""
    try:
        content = decode(text)
    except (WireDecodeError, TypeError):
        content = None
    if isinstance(content, dict):
        return content
    plain = content if isinstance(content, str) else str(text)
    return {"format": 2, "parts": [{"type": "text", "text": plain}], "content": plain}
