"""How the server behind a PostgreSQL store is doing, for ``doctor``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mastra_core.base.clock import Clock
from mastra_core.base.round_trip import measure_round_trip
from mastra_core.contracts.storage.health import HealthWarning, PoolState, StoreHealth
from mastra_core.rules.node_peers import traces_in_tables
from mastra_postgres.connect import MINIMUM_SERVER
from mastra_postgres.settings import PostgresSettings
from mastra_sql.executor import Executor, Step
from mastra_sql.statement import plain

__all__ = ("look_at",)

_TIME: Final = plain(
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8", columns=("now",)
)
#: What the server is; every account may ask for all of it.
_SERVER: Final = plain(
    "SELECT current_setting('server_version'), pg_is_in_recovery(), "
    "current_setting('fsync') = 'off', current_setting('synchronous_commit') = 'off', "
    "(SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend'), "
    "current_setting('max_connections')::int "
    "- current_setting('superuser_reserved_connections')::int, "
    "coalesce((SELECT ssl FROM pg_catalog.pg_stat_ssl WHERE pid = pg_backend_pid()), false)",
    columns=("version", "standby", "no_fsync", "no_wait", "used", "most", "ssl"),
)
_TABLES: Final = plain(
    "SELECT tablename::text FROM pg_catalog.pg_tables WHERE schemaname = $1",
    parameters=("schema",),
    columns=("name",),
)
#: Part of the server's connections from which on a warning is due.
_NEARLY_ALL: Final = 0.8


async def look_at(
    executor: Executor,
    clock: Clock,
    settings: PostgresSettings,
    *,
    prefix: str,
    pool: PoolState,
) -> StoreHealth:
    """Ask the server what it is; reads the catalogue, and no table."""

    async def time() -> float | None:
        [[(now,)]] = await executor.read("health", Step(_TIME))
        return float(now)

    trip = await measure_round_trip(time, clock)
    tables = Step.of(_TABLES, {"schema": settings.schema_name})
    [[server], names] = await executor.read("health", Step(_SERVER), tables)
    version, is_standby, *_, is_encrypted = server
    role = "standby" if is_standby else "primary"
    return StoreHealth(
        product="PostgreSQL",
        version=str(version).partition(" ")[0],
        oldest_version=str(MINIMUM_SERVER),
        setup=f"{role}, {'TLS' if is_encrypted else 'no TLS'}",
        latency_ms=trip.latency_ms,
        clock_skew_ms=trip.skew_ms,
        pool=pool,
        node_peers=traces_in_tables((str(name) for (name,) in names), prefix=prefix),
        warnings=tuple(_warnings(server)),
    )


def _warnings(server: Any) -> Iterator[HealthWarning]:
    _, is_standby, is_without_fsync, is_without_wait, used, most, _ = server
    if is_standby:
        yield HealthWarning(
            summary="The server is a standby: it refuses every write.",
            fix="Name the primary in the URL, or add target_session_attrs=read-write.",
        )
    if is_without_fsync:
        yield HealthWarning(
            summary="fsync is off: when the machine dies, the database may be damaged.",
            fix="Set fsync = on in postgresql.conf.",
        )
    if is_without_wait:
        yield HealthWarning(
            summary="synchronous_commit is off: a crash loses what was acknowledged last.",
            fix="ALTER ROLE … SET synchronous_commit = on",
        )
    if used > most * _NEARLY_ALL:
        yield HealthWarning(
            summary=f"{used} of the {most} connections that clients may have are in use.",
            fix="Raise max_connections, lower mastra_pool_size, or put a pooler in between.",
        )
