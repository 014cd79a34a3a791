"""How the engine behind a libSQL store is doing, for ``doctor``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mastra_core.base.clock import Clock
from mastra_core.base.round_trip import measure_round_trip
from mastra_core.contracts.storage.health import PoolState, StoreHealth
from mastra_core.rules.node_peers import traces_in_tables
from mastra_libsql.migrate import MINIMUM_SQLITE
from mastra_sql.executor import Executor, Step
from mastra_sql.statement import plain

__all__ = ("look_at",)

_TIME: Final = plain("SELECT unixepoch('subsec') * 1000", columns=("now",))
_VERSION: Final = plain("SELECT sqlite_version()", columns=("version",))
_TABLES: Final = plain("SELECT name FROM sqlite_master WHERE type = 'table'", columns=("name",))
_JOURNAL: Final = plain("PRAGMA journal_mode", columns=("mode",))


async def look_at(
    executor: Executor, clock: Clock, *, is_embedded: bool, held: Mapping[str, int], prefix: str
) -> StoreHealth:
    """Ask the engine what it is; reads the catalogue, and no table."""

    async def time() -> float | None:
        [[(now,)]] = await executor.read("health", Step(_TIME))
        return None if is_embedded else float(now)

    trip = await measure_round_trip(time, clock)
    steps = [Step(_VERSION), Step(_TABLES), *([Step(_JOURNAL)] if is_embedded else [])]
    [[(version,)], tables, *journal] = await executor.read("health", *steps)
    return StoreHealth(
        product="SQLite" if is_embedded else "libSQL server",
        version=str(version),
        oldest_version=".".join(map(str, MINIMUM_SQLITE[:2])),
        setup=f"journal {journal[0][0][0]}" if journal else "",
        latency_ms=trip.latency_ms,
        clock_skew_ms=trip.skew_ms,
        pool=PoolState(
            size=held["connections"],
            # A connection serves one call at a time; what waits uses all of them.
            in_use=min(held["connections"], held["waiting_calls"]),
            limit=held["connections"],
            waiting=max(0, held["waiting_calls"] - held["connections"]),
        ),
        node_peers=traces_in_tables((str(name) for (name,) in tables), prefix=prefix),
    )
