"""The key under which everything about a thread is kept (signals.md 0)."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

__all__ = ("quoted_id", "split_key", "thread_key", "thread_topic")

#: What JavaScript's encodeURIComponent leaves as it is, beside letters and digits.
_UNESCAPED: Final = "-_.!~*'()"


def quoted_id(name: str) -> str:
    """As JavaScript's encodeURIComponent writes it."""
    return quote(name, safe=_UNESCAPED)


def thread_key(resource_id: str | None, thread_id: str) -> str:
    """Resource and thread, parted by NUL; no resource is the empty string."""
    return f"{resource_id or ''}\0{thread_id}"


def split_key(key: str) -> tuple[str, str]:
    """Resource and thread of a key."""
    resource_id, _, thread_id = key.partition("\0")
    return resource_id, thread_id


def thread_topic(resource_id: str | None, thread_id: str) -> str:
    """
    The topic of a thread's conversation (pubsub_and_lease.md 1), equal to the other language's.

    Raises:
        UnicodeEncodeError: An id holds half a character (a lone surrogate).
    """
    return f"agent.thread-stream.{quote(thread_key(resource_id, thread_id), safe=_UNESCAPED)}"
