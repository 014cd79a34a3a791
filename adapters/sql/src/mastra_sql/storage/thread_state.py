"""Small JSON values of threads on SQL (cross_agent.md 4)."""

from __future__ import annotations

from typing import Any

from mastra_core.base.jsonjs import decode, encode
from mastra_core.rules.arguments import check_text
from mastra_core.rules.json_values import same_json
from mastra_sql.executor import Program, Step
from mastra_sql.statements.thread_state import ThreadStateStatements
from mastra_sql.storage.host import SqlHost

__all__ = ("SqlThreadState",)


class SqlThreadState:
    """Domain ``thread_state`` of a SQL store."""

    def __init__(self, host: SqlHost) -> None:
        self._host = host
        self._run = host.run
        self._sql = ThreadStateStatements(host.dialect, host.tables)

    async def get_state(self, thread_id: str, state_type: str) -> Any:
        [rows] = await self._run.read("get_state", self._get(thread_id, state_type))
        return decode(rows[0][0]) if rows else None

    async def set_state(self, thread_id: str, state_type: str, value: Any) -> None:
        await self._run.write("set_state", self._save(thread_id, state_type, value))

    async def compare_and_set(
        self, thread_id: str, state_type: str, *, expected: Any, value: Any
    ) -> bool:
        save = self._save(thread_id, state_type, value)
        # As it would read back: a tuple is a list to a store.
        wanted = decode(encode(expected))

        def program() -> Program[bool]:
            [rows] = yield from self._host.locked(
                [(thread_id, state_type)], self._get(thread_id, state_type)
            )
            if not same_json(decode(rows[0][0]) if rows else None, wanted):
                return False
            yield (save,)
            return True

        return await self._run.transact("compare_and_set", program)

    async def delete_state(self, thread_id: str, state_type: str) -> bool:
        step = Step.of(self._sql.delete(), {"threadId": thread_id, "type": state_type})
        return bool(await self._run.write("delete_state", step))

    async def list_states(self, thread_id: str) -> dict[str, Any]:
        step = Step.of(self._sql.of_thread(), {"threadId": thread_id})
        [rows] = await self._run.read("list_states", step)
        return {name: decode(value) for name, value in rows}

    async def dangerously_clear_all(self) -> None:
        for statement in self._sql.clear(self._host.tables.thread_state):
            await self._run.write("dangerously_clear_all", Step(statement))

    def _get(self, thread_id: str, state_type: str) -> Step:
        return Step.of(self._sql.get(), {"threadId": thread_id, "type": state_type})

    def _save(self, thread_id: str, state_type: str, value: Any) -> Step:
        check_text(thread_id, "thread_id")
        check_text(state_type, "state_type")
        now = self._host.dialect.time_value(self._host.clock.now())
        values = {
            "threadId": thread_id,
            "type": state_type,
            "value": encode(value),
            "createdAt": now,
            "updatedAt": now,
        }
        return Step.of(self._sql.save(), values)
