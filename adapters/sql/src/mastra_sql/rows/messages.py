"""Rows of messages (streaming.md 10.1, 10.5)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

from mastra_core.base.jsonjs import decode, encode
from mastra_core.errors import StorageDataError, WireDecodeError
from mastra_core.wire.messages import FILLER_TYPE, Message
from mastra_sql.dialect import SqlDialect
from mastra_sql.executor import Row
from mastra_sql.rows.codec import trusted

__all__ = ("MessageCodec",)

logger = logging.getLogger(__name__)

_FIELDS: Final = frozenset({"id", "role", "created_at", "thread_id", "content"})


class MessageCodec:
    """Converts between rows, in the order of the table, and messages."""

    def __init__(self, dialect: SqlDialect) -> None:
        self._dialect = dialect

    def message(self, row: Row) -> Message:
        """
        The message of one row.

        Raises:
            StorageDataError: Its time is none.
        """
        message_id, thread_id, content, role, kind, created_at, resource_id = row
        given = set(_FIELDS)
        if resource_id is not None:
            given.add("resource_id")
        if kind == FILLER_TYPE:
            kind = None
        elif kind is not None:
            given.add("type")
        try:
            moment = self._dialect.time_from(created_at)
        except WireDecodeError as exc:
            raise StorageDataError(
                f"Message {message_id!r} can't be read: {exc}", details={"messageId": message_id}
            ) from exc
        values = {
            "id": message_id,
            "role": role,
            "created_at": moment,
            "thread_id": thread_id,
            "resource_id": resource_id,
            "type": kind,
            "content": _content(content),
        }
        return trusted(Message, values, given)

    def messages(self, rows: Iterable[Row]) -> list[Message]:
        """The messages of many rows; one that can't be read is left out, with a warning."""
        found: list[Message] = []
        for row in rows:
            try:
                found.append(self.message(row))
            except StorageDataError as exc:
                logger.warning("unreadable message left out", extra={"error": str(exc)})
        return found

    def values(self, message: Message) -> dict[str, Any]:
        """Parameters of all columns."""
        return {
            "id": message.id,
            "thread_id": message.thread_id,
            "content": encode(message.content),
            "role": message.role,
            "type": message.type or FILLER_TYPE,
            "createdAt": self._dialect.time_value(message.created_at),
            "resourceId": message.resource_id,
        }


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
