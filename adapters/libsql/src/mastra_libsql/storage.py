"""``LibSQLStorage``: the six domains in one libSQL database."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from mastra_core.base.naming import prefix_of
from mastra_core.contracts.storage.health import StoreHealth
from mastra_core.plugins.context import AdapterContext
from mastra_core.rules.migrations import MigrationPlan
from mastra_libsql.capabilities import STORAGE_CAPABILITIES
from mastra_libsql.client import Client, open_client, share_client
from mastra_libsql.dialect import SqliteDialect
from mastra_libsql.health import look_at
from mastra_libsql.migrate import migration, plan_of_nothing
from mastra_libsql.schema import retention_index
from mastra_libsql.settings import LibSQLSettings, TargetKind
from mastra_sql.executor import Program, Step
from mastra_sql.statement import plain
from mastra_sql.storage import SqlStorage
from mastra_sql.tables import build_tables

__all__ = ("LibSQLStorage", "StoreFacts")

#: The structure of all tables and indexes; a handful of lines is enough to know.
_QUICK_CHECK: Final = plain("PRAGMA quick_check(5)", columns=("found",))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """What is known about an open database, for ``doctor`` and people."""

    database: str
    sqlite_version: str
    schema_version: int
    #: Tables of the database that are ours to use, with their number of rows.
    tables: dict[str, int]


class LibSQLStorage(SqlStorage[Client]):
    """
    Storage in a SQLite file, in memory, or on a libSQL server.

    Example::

        async with LibSQLStorage("file:app.db") as store:
            await store.memory.list_threads()

    Args:
        settings: URL and options, or just the URL.
        context: Clock, ids, and what storage, pubsub and lease of one URL share.
        options: Settings by name, for those who give just the URL.
    """

    name: ClassVar[str] = "libsql"

    def __init__(
        self,
        settings: LibSQLSettings | str,
        context: AdapterContext | None = None,
        **options: Any,
    ) -> None:
        if isinstance(settings, str):
            settings = LibSQLSettings(url=settings, **options)
        context = context or AdapterContext()
        target = settings.target
        self.settings: LibSQLSettings = settings
        self.capabilities: frozenset[str] = STORAGE_CAPABILITIES
        self.volatile: bool = target.kind is TargetKind.MEMORY
        self._prefix = settings.prefix or prefix_of(context.namespace)
        super().__init__(
            where=target.address,
            dialect=SqliteDialect(has_own_clock=not target.is_embedded),
            tables=build_tables(self._prefix),
            context=context,
            disable_init=settings.disable_init,
            allow_unprepared=settings.allow_unprepared,
            max_snapshot_bytes=settings.max_snapshot_bytes,
        )

    def _share_client(self) -> AbstractAsyncContextManager[Client]:
        return share_client(self._context, self.settings)

    def _open_client(self) -> AbstractAsyncContextManager[Client]:
        return open_client(self.settings, clock=self._context.clock)

    def _migration(self, *, apply: bool) -> Program[MigrationPlan]:
        return migration(self._tables, self._prefix, apply=apply)

    def _plan_of_nothing(self) -> MigrationPlan:
        return plan_of_nothing(self._tables, self._prefix)

    async def _create_retention_index(self, table: str, column: str) -> None:
        await self._door.write("prune", Step(plain(retention_index(table, column), writes=True)))

    # -- administration --------------------------------------------------------------------

    async def plan_migration(self) -> MigrationPlan:
        """
        What ``init`` would do to the database right now; nothing is changed.

        Opens the database for the moment if the store isn't open.
        """
        if self._door.client is None and self.settings.target.is_new():
            # Looking must not create a file.
            return self._plan_of_nothing()
        return await super().plan_migration()

    async def check_integrity(self) -> Sequence[str] | None:
        """
        What SQLite finds wrong with the file, at most a few lines; reads all of it.

        Opens the database for the moment if the store isn't open.

        Returns:
            Nothing if it is whole. None for a server, which keeps its own files.

        Raises:
            StorageDataError: It is damaged so that SQLite can't even look.
        """
        target = self.settings.target
        if not target.is_embedded:
            return None
        if self._door.client is None and target.is_new():
            return ()
        async with self._ajar():
            [rows] = await self._door.read("check_integrity", Step(_QUICK_CHECK))
        lines = [line for (found,) in rows for line in str(found).splitlines()]
        return tuple(line for line in lines if line != "ok" and not line.startswith("***"))

    async def server_info(self) -> dict[str, str]:
        """Product and version of the engine."""
        version = plain("SELECT sqlite_version()", columns=("version",))
        [[(found,)]] = await self._door.read("server_info", Step(version))
        embedded = self.settings.target.is_embedded
        return {"product": "SQLite" if embedded else "libSQL server", "version": str(found)}

    async def health(self) -> StoreHealth:
        """
        How the engine is doing: version, latency, connections, traces of a Node peer.

        Opens the database for the moment if the store isn't open; a file that isn't there
        is no database.
        """
        if self.settings.target.is_new():
            self._door.opened()
        async with self._ajar():
            client = self._door.opened()
            return await look_at(
                client,
                self._context.clock,
                is_embedded=self.settings.target.is_embedded,
                held=client.held(),
                prefix=self._prefix,
            )

    async def facts(self) -> StoreFacts:
        """Versions, tables and their sizes; reads every table once."""
        tables = [table.name for table in (*self._tables.shared(), *self._tables.own())]
        counts = [plain(f"SELECT count(*) FROM {name}", columns=("n",)) for name in tables]  # noqa: S608 - names of ours
        version = plain("SELECT sqlite_version()", columns=("version",))
        plan = await self.plan_migration()
        [[(sqlite,)], *rows] = await self._door.read(
            "facts", Step(version), *(Step(count) for count in counts)
        )
        return StoreFacts(
            database=self._door.where,
            sqlite_version=sqlite,
            schema_version=plan.found_version,
            tables={name: found[0][0] for name, found in zip(tables, rows, strict=True)},
        )
