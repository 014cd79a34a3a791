"""What the caching wrapper needs of a server cache (pubsub_and_lease.md 4, 9.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

__all__ = ("Indexed", "ServerCache")


@dataclass(frozen=True, slots=True)
class Indexed:
    """Where an element was put."""

    index: int
    #: Grows each time that the counter starts anew.
    epoch: int


@runtime_checkable
class ServerCache(Protocol):
    """Lists and values that expire; shared by the processes that share the bus."""

    async def get(self, key: str) -> Any:
        """The value; None if there is none."""
        ...

    async def set(self, key: str, value: Any, ttl_ms: int | None = None) -> None:
        """Keep a value; a time of 0 and less is for ever, None the default."""
        ...

    async def increment(self, key: str) -> int:
        """Count; the first call gives 1."""
        ...

    async def list_length(self, key: str) -> int:
        """How many elements; 0 if there is no list."""
        ...

    async def list_push(self, key: str, value: Any) -> None:
        """Add to the end, and start the time of the list anew."""
        ...

    async def list_push_indexed(
        self, key: str, counter_key: str, value: Mapping[str, Any], *, max_entries: int
    ) -> Indexed:
        """
        Count and add in one step, with ``index`` as the first member of the element.

        Keeps the last ``max_entries`` elements, and starts the times of both keys anew.
        """
        ...

    async def list_from_to(self, key: str, start: int, end: int = -1) -> list[Any]:
        """Elements by place, both ends included; negative places count from the end."""
        ...

    async def list_remove(self, key: str, value: Any) -> int:
        """Remove all elements that equal the value; how many there were."""
        ...

    async def delete(self, key: str) -> None:
        """Forget a key."""
        ...

    async def clear(self) -> None:
        """Forget all."""
        ...
