"""Small values of threads in Redis (cross_agent.md 4): one hash per thread."""

from __future__ import annotations

from typing import Any, Final

from mastra_core.base import jsonjs
from mastra_core.base.isotime import to_iso_ms
from mastra_core.errors import StorageTimeoutError
from mastra_core.rules.arguments import check_text
from mastra_core.rules.json_values import same_json
from mastra_redis.errors import error_id
from mastra_redis.keys import raw, text
from mastra_redis.records import decoded
from mastra_redis.storage.host import Host, digest

__all__ = ("RedisThreadState",)

#: Creation and change time stand before the JSON text, 24 characters each.
_TIMES: Final = 48
_TRIES: Final = 200


class RedisThreadState:
    """Domain ``thread_state``; see ``contracts.storage.thread_state``."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._keys = host.keys

    async def get_state(self, thread_id: str, state_type: str) -> Any:
        """The value; None if there is none."""
        found = await self._host.read(
            "get_state", "HGET", self._keys.state(thread_id), raw(state_type)
        )
        return _value(found)

    async def set_state(self, thread_id: str, state_type: str, value: Any) -> None:
        """Upsert; the value keeps its creation time."""
        _check(thread_id, state_type)
        await self._put("set_state", thread_id, state_type, value, "*")

    async def compare_and_set(
        self, thread_id: str, state_type: str, *, expected: Any, value: Any
    ) -> bool:
        """Replace ``expected`` by ``value``, in one step; True for the winner."""
        _check(thread_id, state_type)
        wanted = jsonjs.sanitize_copy(expected)
        key = self._keys.state(thread_id)
        for _ in range(_TRIES):
            found = await self._host.read("compare_and_set", "HGET", key, raw(state_type))
            if not same_json(_value(found), wanted):
                return False
            answer = await self._put("compare_and_set", thread_id, state_type, value, digest(found))
            if answer[0] == 1:
                return True
        raise StorageTimeoutError(
            f"Others changed the value {_TRIES} times.", id=error_id("compare_and_set")
        )

    async def _put(
        self, operation: str, thread_id: str, state_type: str, value: Any, wanted: str
    ) -> Any:
        now = to_iso_ms(self._host.clock.now())
        return await self._host.script(
            operation,
            "state",
            [self._keys.state(thread_id)],
            [raw(state_type), now, jsonjs.encode_bytes(value), wanted],
        )

    async def delete_state(self, thread_id: str, state_type: str) -> bool:
        """Delete; True if there was one."""
        gone = await self._host.write(
            "delete_state", "HDEL", self._keys.state(thread_id), raw(state_type)
        )
        return bool(gone)

    async def list_states(self, thread_id: str) -> dict[str, Any]:
        """All values of a thread by type."""
        found = await self._host.read("list_states", "HGETALL", self._keys.state(thread_id))
        return {text(name): _value(found[name]) for name in sorted(found)}

    async def dangerously_clear_all(self) -> None:
        """Delete every value."""
        await self._host.clear("dangerously_clear_all", (self._keys.states,))


def _check(thread_id: str, state_type: str) -> None:
    check_text(thread_id, "thread_id")
    check_text(state_type, "state_type")


def _value(found: bytes | None) -> Any:
    return None if found is None else decoded(found[_TIMES:], what="a thread's state")
