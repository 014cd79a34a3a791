"""A server cache in this process's memory (pubsub_and_lease.md 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mastra_core.base.clock import Clock, SystemClock
from mastra_core.bus.cache import Indexed
from mastra_core.inmemory.payload import copy_payload

__all__ = ("InMemoryCache",)

_TTL_MS: Final = 300_000
_MAX_KEYS: Final = 1_000


@dataclass(slots=True)
class _Kept:
    value: Any
    ttl_ms: int
    #: By the monotonic clock; None for ever.
    expires_at: float | None


class InMemoryCache:
    """
    At most so many keys; over that, the one that expires next goes.

    Args:
        ttl_ms: Time of a key without one of its own; 0 and less is for ever.
        max_keys: How many keys are kept.
        clock: Decides about expiry.
    """

    def __init__(
        self, *, ttl_ms: int = _TTL_MS, max_keys: int = _MAX_KEYS, clock: Clock | None = None
    ) -> None:
        self._ttl_ms = ttl_ms
        self._max_keys = max_keys
        self._clock = clock or SystemClock()
        self._keys: dict[str, _Kept] = {}
        self._last_epoch = 0

    def __len__(self) -> int:
        return len(self._keys)

    async def get(self, key: str) -> Any:
        kept = self._live(key)
        return None if kept is None else kept.value

    async def set(self, key: str, value: Any, ttl_ms: int | None = None) -> None:
        self._keep(key, value, self._ttl_ms if ttl_ms is None else ttl_ms)

    async def increment(self, key: str) -> int:
        return self._count(key)

    async def list_length(self, key: str) -> int:
        return len(self._list(key))

    async def list_push(self, key: str, value: Any) -> None:
        self._push(key, value)

    async def list_push_indexed(
        self, key: str, counter_key: str, value: Mapping[str, Any], *, max_entries: int
    ) -> Indexed:
        index = self._count(counter_key) - 1
        epoch_key = f"{counter_key}:epoch"
        kept = self._live(epoch_key)
        if index == 0 or kept is None:
            self._last_epoch = max(self._last_epoch + 1, self._clock.now_ms())
        epoch = self._last_epoch if index == 0 or kept is None else kept.value
        self._keep(epoch_key, epoch, self._ttl_ms)
        if index == 0:
            self._keys.pop(key, None)  # what an older numbering left
        copied, _ = copy_payload({"index": index, **value}, None)
        elements = self._push(key, copied)
        del elements[: max(0, len(elements) - max_entries)]
        return Indexed(index, epoch)

    async def list_from_to(self, key: str, start: int, end: int = -1) -> list[Any]:
        elements = self._list(key)
        count = len(elements)
        first = max(0, start + count if start < 0 else start)
        last = end + count if end < 0 else end
        return list(elements[first : last + 1])

    async def list_remove(self, key: str, value: Any) -> int:
        elements = self._list(key)
        kept = [element for element in elements if element != value]
        removed = len(elements) - len(kept)
        elements[:] = kept
        return removed

    async def delete(self, key: str) -> None:
        self._keys.pop(key, None)

    async def clear(self) -> None:
        self._keys.clear()

    def _live(self, key: str) -> _Kept | None:
        kept = self._keys.get(key)
        if kept is None:
            return None
        if kept.expires_at is not None and kept.expires_at <= self._clock.monotonic():
            del self._keys[key]
            return None
        return kept

    def _keep(self, key: str, value: Any, ttl_ms: int) -> None:
        expires_at = self._clock.monotonic() + ttl_ms / 1000 if ttl_ms > 0 else None
        self._keys[key] = _Kept(value, ttl_ms, expires_at)
        if len(self._keys) > self._max_keys:
            self._evict(key)

    def _evict(self, but: str) -> None:
        def end(key: str) -> float:
            expires_at = self._keys[key].expires_at
            return float("inf") if expires_at is None else expires_at

        del self._keys[min((key for key in self._keys if key != but), key=end)]

    def _count(self, key: str) -> int:
        kept = self._live(key)
        count = 0 if kept is None else kept.value
        if not isinstance(count, int):
            raise TypeError(f"Cache key {key!r} holds no number.")
        self._keep(key, count + 1, self._ttl_ms if kept is None else kept.ttl_ms)
        return count + 1

    def _list(self, key: str) -> list[Any]:
        kept = self._live(key)
        if kept is None:
            return []
        if not isinstance(kept.value, list):
            raise TypeError(f"Cache key {key!r} holds no list.")
        return kept.value

    def _push(self, key: str, value: Any) -> list[Any]:
        kept = self._live(key)
        elements = self._list(key)
        elements.append(value)
        self._keep(key, elements, self._ttl_ms if kept is None else kept.ttl_ms)
        return elements
