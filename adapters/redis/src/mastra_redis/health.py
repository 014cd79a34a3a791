"""How the server behind a Redis store is doing, for ``doctor``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from redis.exceptions import NoPermissionError, ResponseError

from mastra_core.base.clock import Clock
from mastra_core.base.round_trip import measure_round_trip
from mastra_core.contracts.storage.health import HealthWarning, PoolState, StoreHealth
from mastra_core.rules.node_peers import traces_in_tables
from mastra_redis.keys import escape_pattern, raw
from mastra_redis.pool import MINIMUM_VERSION, Server

__all__ = ("look_at",)

#: How drivers for Node call themselves; servers before 7.2 don't keep it.
_NODE_DRIVER: Final = re.compile(rb"\blib-name=(node-redis|ioredis)")
#: Keys that are looked at for traces; the rest of a large database stays unseen.
_SAMPLE: Final = 1000
_FIXES: Final = (
    ("maxmemory-policy", "CONFIG SET maxmemory-policy noeviction"),
    ("appendonly", "CONFIG SET appendonly yes"),
    ("replica", "Name the primary in the URL."),
)


async def look_at(server: Server, clock: Clock, *, prefix: str) -> StoreHealth:
    """Ask the server what it is, and look at some names of keys."""

    async def time() -> float | None:
        seconds, microseconds = await server.link.call("TIME", repeatable=True)
        return int(seconds) * 1000 + int(microseconds) / 1000

    trip = await measure_round_trip(time, clock)
    await server.look()
    held = server.held()
    return StoreHealth(
        product="Redis",
        version=server.facts.version,
        oldest_version=".".join(map(str, MINIMUM_VERSION)),
        setup=_setup(server),
        latency_ms=trip.latency_ms,
        clock_skew_ms=trip.skew_ms,
        # One connection carries the commands of all callers, so none of them waits for one.
        pool=PoolState(size=held["connections"], in_use=held["connections"], limit=None),
        node_peers=[*await _connected(server), *await _traces(server, prefix)],
        warnings=tuple(_warnings(server.facts.warnings)),
    )


def _setup(server: Server) -> str:
    facts = server.facts
    kept = "append-only file" if facts.has_log else "snapshots" if facts.has_snapshots else "memory"
    return f"{facts.mode}, {facts.role}, {kept}"


async def _connected(server: Server) -> list[str]:
    try:
        clients: bytes = await server.link.call("CLIENT", "LIST", repeatable=True)
    except (NoPermissionError, ResponseError):
        return []
    count = sum(_NODE_DRIVER.search(line) is not None for line in clients.splitlines())
    return [f"{count} connections of a driver for Node"] if count else []


async def _traces(server: Server, prefix: str) -> list[str]:
    pattern = escape_pattern(raw(prefix)) + b"mastra_*"
    scan = ("SCAN", 0, "MATCH", pattern, "COUNT", _SAMPLE)
    _, keys = await server.link.call(*scan, repeatable=True)
    names = {key.decode("utf-8", "replace").removeprefix(prefix).partition(":")[0] for key in keys}
    return traces_in_tables(names, noun="keys")


def _warnings(sentences: tuple[str, ...]) -> Iterator[HealthWarning]:
    for sentence in sentences:
        fixes = (fix for part, fix in _FIXES if part in sentence)
        yield HealthWarning(summary=sentence, fix=next(fixes, None))
