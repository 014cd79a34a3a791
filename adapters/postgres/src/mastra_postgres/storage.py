"""``PostgresStorage``: the six domains in one PostgreSQL database."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

from mastra_core.base.naming import prefix_of
from mastra_core.contracts.storage.health import StoreHealth
from mastra_core.plugins.context import AdapterContext
from mastra_core.rules.migrations import MigrationPlan
from mastra_postgres.capabilities import STORAGE_CAPABILITIES
from mastra_postgres.client import PostgresClient, open_client, share_client
from mastra_postgres.dialect import PostgresDialect
from mastra_postgres.health import look_at
from mastra_postgres.migrate import migration, plan_of_nothing
from mastra_postgres.schema import retention_index, table_name
from mastra_postgres.settings import PostgresSettings
from mastra_sql.executor import Program, ProgramFactory, Step, atomic
from mastra_sql.statement import plain
from mastra_sql.storage import SqlStorage
from mastra_sql.tables import build_tables

__all__ = ("PostgresStorage", "StoreFacts")

T = TypeVar("T")

#: Seconds that creating what is missing may take; an index of a large table needs some.
_MIGRATION_TIMEOUT: Final = 3600.0
#: With a prefix of this length and what stands around it no table's name is cut.
_LONGEST_NAMESPACE: Final = 28
_VERSION: Final = plain("SELECT current_setting('server_version')", columns=("version",))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """What is known about an open database, for ``doctor`` and people."""

    database: str
    server_version: str
    schema_version: int
    #: How large new snapshots are compressed; empty for the server's default.
    compression: str
    #: Tables of the database that are ours to use, with the planner's guess of their rows.
    tables: dict[str, int]
    #: Tables with the bytes that they and their indexes take.
    sizes: dict[str, int]


class PostgresStorage(SqlStorage[PostgresClient]):
    """
    Storage in a PostgreSQL database.

    Example::

        async with PostgresStorage("postgresql://app@db/app") as store:
            await store.memory.list_threads()

    Args:
        settings: URL and options, or just the URL.
        context: Clock, ids, and what storage, pubsub and lease of one URL share.
        options: Settings by name, for those who give just the URL.
    """

    name: ClassVar[str] = "postgres"

    def __init__(
        self,
        settings: PostgresSettings | str,
        context: AdapterContext | None = None,
        **options: Any,
    ) -> None:
        if isinstance(settings, str):
            settings = PostgresSettings(url=settings, **options)
        context = context or AdapterContext()
        self.settings: PostgresSettings = settings
        self.capabilities: frozenset[str] = STORAGE_CAPABILITIES
        self.volatile: bool = False
        self._prefix = settings.prefix or prefix_of(context.namespace, longest=_LONGEST_NAMESPACE)
        super().__init__(
            where=settings.where,
            dialect=PostgresDialect(
                naive_timezone=settings.naive_timezone,
                scope=f"{settings.schema_name}.{self._prefix}",
            ),
            tables=build_tables(self._prefix, schema=settings.schema_name, twins=True),
            context=context,
            disable_init=settings.disable_init,
            allow_unprepared=settings.allow_unprepared,
            max_snapshot_bytes=settings.max_snapshot_bytes,
        )

    def _share_client(self) -> AbstractAsyncContextManager[PostgresClient]:
        return share_client(self._context, self.settings)

    def _open_client(self) -> AbstractAsyncContextManager[PostgresClient]:
        return open_client(self.settings)

    def _migration(self, *, apply: bool) -> Program[MigrationPlan]:
        compression = self.settings.snapshot_compression
        return migration(self._tables, self._prefix, compression=compression, apply=apply)

    def _plan_of_nothing(self) -> MigrationPlan:
        return plan_of_nothing(self._tables, self._prefix)

    async def _change(self, operation: str, program: ProgramFactory[T]) -> T:
        return await self._door.opened().transact(operation, program, seconds=_MIGRATION_TIMEOUT)

    async def _create_retention_index(self, table: str, column: str) -> None:
        [found] = [t for t in self._tables.shared() if t.name == table]
        await self._change(
            "prune", atomic(Step(plain(retention_index(found, column), writes=True)))
        )

    # -- administration --------------------------------------------------------------------

    async def check_integrity(self) -> None:
        """Nothing to say: the server looks after its own files."""
        return

    async def server_info(self) -> dict[str, str]:
        """Product and version of the server."""
        [[(found,)]] = await self._door.read("server_info", Step(_VERSION))
        return {"product": "PostgreSQL", "version": str(found).partition(" ")[0]}

    async def health(self) -> StoreHealth:
        """
        How the server is doing: version, latency, clock, pool, traces of a Node peer.

        Connects for the moment if the store isn't open.
        """
        async with self._ajar():
            client = self._door.opened()
            return await look_at(
                client,
                self._context.clock,
                self.settings,
                prefix=self._prefix,
                pool=client.pool_state(),
            )

    async def facts(self) -> StoreFacts:
        """Versions, tables and their sizes, as the catalogue knows them."""
        plan = await self.plan_migration()
        tables = [*self._tables.shared(), *self._tables.own()]
        sizes = [
            plain(
                "SELECT greatest(reltuples, 0)::bigint, pg_total_relation_size(oid)::bigint "  # noqa: S608 - names of ours
                f"FROM pg_catalog.pg_class WHERE oid = '{table_name(table)}'::regclass",
                columns=("rows", "bytes"),
            )
            for table in tables
        ]
        compression = plain(
            "SELECT attcompression::text FROM pg_catalog.pg_attribute "  # noqa: S608 - names of ours
            f"WHERE attrelid = '{table_name(self._tables.snapshots)}'::regclass "
            "AND attname = 'snapshot'",
            columns=("compression",),
        )
        [[(version,)], [(method,)], *rows] = await self._door.read(
            "facts", Step(_VERSION), Step(compression), *(Step(size) for size in sizes)
        )
        return StoreFacts(
            database=self._door.where,
            server_version=str(version),
            schema_version=plan.found_version,
            compression={"l": "lz4", "p": "pglz"}.get(method, ""),
            tables={t.name: found[0][0] for t, found in zip(tables, rows, strict=True)},
            sizes={t.name: found[0][1] for t, found in zip(tables, rows, strict=True)},
        )
