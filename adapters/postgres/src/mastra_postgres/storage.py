"""``PostgresStorage``: the six domains in one PostgreSQL database."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeVar

from mastra_core.contracts.storage.health import StoreHealth
from mastra_core.errors import StorageConnectionError, StorageSchemaError
from mastra_core.plugins.context import AdapterContext
from mastra_postgres.capabilities import STORAGE_CAPABILITIES
from mastra_postgres.client import PostgresClient, open_client, share_client
from mastra_postgres.dialect import PostgresDialect
from mastra_postgres.errors import error_id
from mastra_postgres.health import look_at
from mastra_postgres.migrate import MigrationPlan, migration, plain, plan_of_nothing
from mastra_postgres.schema import retention_index, table_name
from mastra_postgres.settings import PostgresSettings
from mastra_sql.executor import Observer, Program, ProgramFactory, Rows, Step
from mastra_sql.storage import (
    SqlBackgroundTasks,
    SqlHost,
    SqlMemory,
    SqlNotifications,
    SqlSchedules,
    SqlThreadState,
    SqlWorkflows,
)
from mastra_sql.tables import build_tables

__all__ = ("PostgresStorage", "StoreFacts", "prefix_of")

T = TypeVar("T")

#: Seconds that creating what is missing may take; an index of a large table needs some.
_MIGRATION_TIMEOUT: Final = 3600.0
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


class PostgresStorage:
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
        self._context = context
        self._prefix = settings.prefix or prefix_of(context.namespace)
        self._tables = build_tables(self._prefix, schema=settings.schema_name, twins=True)
        self._door = _Door(settings.where)
        self._dialect = PostgresDialect(
            naive_timezone=settings.naive_timezone,
            scope=f"{settings.schema_name}.{self._prefix}",
        )
        #: What is shared with other users of the database, while the store is open.
        self._opened: AsyncExitStack | None = None
        #: How many ``async with`` blocks are inside; the last one closes.
        self._entered = 0
        host = SqlHost(
            executor=self._door,
            dialect=self._dialect,
            tables=self._tables,
            clock=context.clock,
            ids=context.ids,
            retention_index=self._create_retention_index,
            max_snapshot_bytes=settings.max_snapshot_bytes,
        )
        self._memory = SqlMemory(host)
        self._workflows = SqlWorkflows(host)
        self._notifications = SqlNotifications(host)
        self._thread_state = SqlThreadState(host)
        self._background_tasks = SqlBackgroundTasks(host)
        self._schedules = SqlSchedules(host)

    # -- domains ---------------------------------------------------------------------------

    @property
    def memory(self) -> SqlMemory:
        """Threads, messages, resources."""
        return self._memory

    @property
    def workflows(self) -> SqlWorkflows:
        """Snapshots of runs."""
        return self._workflows

    @property
    def notifications(self) -> SqlNotifications:
        """The inbox."""
        return self._notifications

    @property
    def thread_state(self) -> SqlThreadState:
        """Small values of threads."""
        return self._thread_state

    @property
    def background_tasks(self) -> SqlBackgroundTasks:
        """Detached tool calls."""
        return self._background_tasks

    @property
    def schedules(self) -> SqlSchedules:
        """Timers."""
        return self._schedules

    # -- life ------------------------------------------------------------------------------

    async def init(self) -> None:
        """
        Connect and create or add what is missing, unless told not to.

        Raises:
            StorageSchemaError: The server is too old, the database too new, or something is
                missing and ``disable_init`` is set.
            StorageError: The database can't be reached, or refuses us.
        """
        if self._opened is not None:
            return
        async with AsyncExitStack() as stack:
            self._door.client = await stack.enter_async_context(
                share_client(self._context, self.settings)
            )
            try:
                await self._migrate()
            except BaseException:
                self._door.client = None
                raise
            self._opened = stack.pop_all()

    async def _migrate(self) -> None:
        plan = await self._door.read_program("init", lambda: self._migration(apply=False))
        if plan and not self.settings.disable_init:
            await self._door.opened().transact(
                "init", lambda: self._migration(apply=True), seconds=_MIGRATION_TIMEOUT
            )
        elif plan:
            raise StorageSchemaError(
                f"{self._door.where} has to be migrated first: {len(plan.statements)} statements "
                "are missing, and disable_init is set.",
                id=error_id("init"),
                hint="Run: mastra-py migrate",
                details={"statements": len(plan.statements)},
            )

    def _migration(self, *, apply: bool) -> Program[MigrationPlan]:
        compression = self.settings.snapshot_compression
        return migration(self._tables, self._prefix, compression=compression, apply=apply)

    async def aclose(self) -> None:
        """Close the connections if nobody else uses them; every later call raises."""
        opened, self._opened = self._opened, None
        self._door.left = self._door.client or self._door.left
        self._door.client = None
        if opened is not None:
            await opened.aclose()

    async def __aenter__(self) -> Self:
        await self.init()
        self._entered += 1
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._entered -= 1
        if self._entered <= 0:
            self._entered = 0
            await self.aclose()

    # -- administration --------------------------------------------------------------------

    async def plan_migration(self) -> MigrationPlan:
        """
        What ``init`` would do to the database right now; nothing is changed.

        Connects for the moment if the store isn't open.
        """
        async with self._ajar():
            return await self._door.read_program("plan", lambda: self._migration(apply=False))

    async def check_integrity(self) -> None:
        """Nothing to say: the server looks after its own files."""
        return

    @asynccontextmanager
    async def _ajar(self) -> AsyncIterator[None]:
        """The database for one look, also if the store isn't open."""
        if self._door.client is not None:
            yield
            return
        async with open_client(self.settings) as client:
            self._door.client = client
            try:
                yield
            finally:
                self._door.client = None

    def export_ddl(self) -> str:
        """Everything that an empty database needs, as SQL text for whoever may run it."""
        plan = plan_of_nothing(self._tables, self._prefix)
        return ";\n".join(plan.statements) + ";\n"

    def diagnostics(self) -> Mapping[str, int]:
        """
        What the store holds open right now, by kind; looks at nothing but itself.

        After ``aclose()`` every number is 0, unless another store of the same context still
        uses the database: what is shared belongs to its last user.
        """
        client = self._door.client
        if client is None and self._door.left is not None and self._door.left.is_closed:
            client = self._door.left
        if client is None:
            return {"connections": 0, "waiting_calls": 0}
        return client.held()

    async def server_info(self) -> dict[str, str]:
        """Product and version of the server."""
        [[(found,)]] = await self._door.read("server_info", Step(_VERSION))
        return {"product": "PostgreSQL", "version": str(found).partition(" ")[0]}

    async def health(self) -> StoreHealth:
        """How the server is doing: version, latency, clock, pool, traces of a Node peer."""
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

    def observe(self, observer: Observer | None) -> None:
        """
        Call this for every statement from now on; None stops it.

        It must neither wait nor raise. Stores that share the database share the observer.
        """
        self._door.opened().observe(observer)

    async def dangerously_clear_all(self) -> None:
        """Delete every row of the six domains and of our own claims."""
        for domain in (
            self._memory,
            self._workflows,
            self._notifications,
            self._thread_state,
            self._background_tasks,
            self._schedules,
        ):
            await domain.dangerously_clear_all()

    async def _create_retention_index(self, table: str, column: str) -> None:
        if not self.settings.disable_init:
            [found] = [t for t in self._tables.shared() if t.name == table]
            await self._door.opened().transact(
                "prune",
                lambda: _only(plain(retention_index(found, column), writes=True)),
                seconds=_MIGRATION_TIMEOUT,
            )


def _only(statement: Any) -> Program[None]:
    yield (Step(statement),)


class _Door:
    """The executor as domains know it: open or closed, whatever is behind it."""

    def __init__(self, where: str) -> None:
        self.where: str = where
        self.client: PostgresClient | None = None
        #: The client that was behind it, so that what it still holds can be told.
        self.left: PostgresClient | None = None

    def opened(self) -> PostgresClient:
        """The client behind the door."""
        if self.client is None:
            raise StorageConnectionError(
                f"The store of {self.where} is closed, or was not opened yet.",
                id=error_id("open"),
                hint="Use it inside `async with`.",
            )
        return self.client

    async def read(self, operation: str, *steps: Step) -> list[Rows]:
        return await (self.client or self.opened()).read(operation, *steps)

    async def write(self, operation: str, step: Step) -> Rows:
        return await (self.client or self.opened()).write(operation, step)

    async def transact(self, operation: str, program: ProgramFactory[T]) -> T:
        return await (self.client or self.opened()).transact(operation, program)

    async def read_program(self, operation: str, program: ProgramFactory[T]) -> T:
        """Run a program that only reads, without any lock; it may see several states."""
        running = program()
        try:
            steps = next(running)
            while True:
                steps = running.send(await self.read(operation, *steps))
        except StopIteration as finished:
            result: T = finished.value
            return result


def prefix_of(namespace: str) -> str:
    """A prefix of table names for a namespace; equal namespaces have equal prefixes."""
    if not namespace:
        return ""
    plain_name = re.sub(r"[^A-Za-z0-9]", "_", namespace)
    if len(plain_name) > _LONGEST_NAMESPACE:
        digest = hashlib.sha256(namespace.encode()).hexdigest()[:8]
        plain_name = f"{plain_name[: _LONGEST_NAMESPACE - 9]}_{digest}"
    return f"{plain_name}_" if not plain_name[0].isdigit() else f"_{plain_name}_"


#: With a prefix of this length and what stands around it no table's name is cut.
_LONGEST_NAMESPACE: Final = 28
