"""How the server behind a MongoDB store is doing, for ``doctor``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from math import isfinite
from typing import Any, Final

from pymongo.errors import OperationFailure

from mastra_core.base.clock import Clock
from mastra_core.base.round_trip import measure_round_trip
from mastra_core.contracts.storage.health import HealthWarning, StoreHealth
from mastra_core.rules.node_peers import traces_in_tables
from mastra_mongodb.errors import MINIMUM_SERVER
from mastra_mongodb.pool import MongoPool

__all__ = ("look_at",)

#: Connections whose driver is the one for Node; asking takes a right that not everybody has.
_NODE_CONNECTIONS: Final = (
    {"$currentOp": {"allUsers": True, "idleConnections": True}},
    {"$match": {"clientMetadata.driver.name": {"$regex": "^nodejs"}}},
    {"$count": "connections"},
)
#: Part of the server's connections from which on a warning is due.
_NEARLY_ALL: Final = 0.8


async def look_at(pool: MongoPool, clock: Clock, *, prefix: str) -> StoreHealth:
    """Ask the server what it is; reads no document of a store."""

    async def time() -> float | None:
        return (await pool.server_time()).timestamp() * 1000

    trip = await measure_round_trip(time, clock)
    hello: Mapping[str, Any] = await pool.client.admin.command("hello")
    names = await pool.database.list_collection_names()
    return StoreHealth(
        product="MongoDB",
        version=pool.version,
        oldest_version=".".join(map(str, MINIMUM_SERVER)),
        setup=_setup(hello),
        latency_ms=trip.latency_ms,
        clock_skew_ms=trip.skew_ms,
        pool=pool.connections.state(_most(pool)),
        node_peers=[
            *await _connected(pool),
            *traces_in_tables(names, prefix=prefix, noun="collections"),
        ],
        warnings=[warning async for warning in _warnings(pool)],
    )


def _most(pool: MongoPool) -> int | None:
    """How many connections the driver may open; the URL may have told it."""
    most = pool.client.options.pool_options.max_pool_size
    return int(most) if most and isfinite(most) else None


def _setup(hello: Mapping[str, Any]) -> str:
    if hello.get("msg") == "isdbgrid":
        return "sharded"
    if "setName" in hello:
        count = len(hello.get("hosts", ()))
        return f"replica set {hello['setName']} of {count}"
    return "standalone"


async def _connected(pool: MongoPool) -> list[str]:
    """Who is connected right now with the driver for Node."""
    try:
        async with await pool.client.admin.aggregate(list(_NODE_CONNECTIONS)) as cursor:
            found = await cursor.to_list()
    except OperationFailure:
        return []
    return [f"{entry['connections']} connections of Node's driver" for entry in found]


async def _warnings(pool: MongoPool) -> AsyncIterator[HealthWarning]:
    if not pool.is_replicated:
        yield HealthWarning(
            summary="The server is no replica set: there are no transactions and no change "
            "streams, so some steps are repaired instead of atomic, and readers ask again "
            "and again.",
            fix="Start it with --replSet, then run rs.initiate().",
        )
    try:
        status: Mapping[str, Any] = await pool.client.admin.command("serverStatus")
    except OperationFailure:
        return
    for warning in _crowd(status.get("connections", {})):
        yield warning


def _crowd(connections: Mapping[str, Any]) -> Iterator[HealthWarning]:
    used, left = connections.get("current", 0), connections.get("available", 0)
    if used > (used + left) * _NEARLY_ALL:
        yield HealthWarning(
            summary=f"{used} of the {used + left} connections that clients may have are in use.",
            fix="Lower mastra_pool_size, or raise the server's limit.",
        )
