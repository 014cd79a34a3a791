"""``LibSQLStorage``: the six domains in one libSQL database."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeVar

from mastra_core.contracts.storage.health import StoreHealth
from mastra_core.errors import StorageConnectionError, StorageSchemaError
from mastra_core.plugins.context import AdapterContext
from mastra_libsql.capabilities import STORAGE_CAPABILITIES
from mastra_libsql.client import Client, open_client, share_client
from mastra_libsql.dialect import SqliteDialect
from mastra_libsql.errors import error_id
from mastra_libsql.health import look_at
from mastra_libsql.migrate import MigrationPlan, migration, plain, plan_of_nothing
from mastra_libsql.schema import retention_index
from mastra_libsql.settings import LibSQLSettings, TargetKind
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

__all__ = ("LibSQLStorage", "StoreFacts")

T = TypeVar("T")

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


class LibSQLStorage:
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
        self._context = context
        self._prefix = settings.prefix or _prefix_of(context.namespace)
        self._tables = build_tables(self._prefix)
        self._door = _Door(target.address)
        self._dialect = SqliteDialect(has_own_clock=not target.is_embedded)
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
        Open the database and create or add what is missing, unless told not to.

        Raises:
            StorageSchemaError: SQLite is too old, the database too new, or something is
                missing and ``disable_init`` is set.
            StorageError: The database can't be opened.
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
        apply = not self.settings.disable_init
        plan = await self._door.read_program("init", lambda: self._migration(apply=False))
        if plan and apply:
            plan = await self._door.transact("init", lambda: self._migration(apply=True))
        elif plan:
            raise StorageSchemaError(
                f"{self._door.where} has to be migrated first: {len(plan.statements)} statements "
                "are missing, and disable_init is set.",
                id=error_id("init"),
                hint="Run: mastra-py migrate",
                details={"statements": len(plan.statements)},
            )

    def _migration(self, *, apply: bool) -> Program[MigrationPlan]:
        return migration(self._tables, self._prefix, apply=apply)

    async def aclose(self) -> None:
        """Close the database if nobody else uses it; every later call raises."""
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

        Opens the database for the moment if the store isn't open.
        """
        if self._door.client is None and self.settings.target.is_new():
            # Looking must not create a file.
            return plan_of_nothing(self._tables, self._prefix)
        async with self._ajar():
            return await self._door.read_program("plan", lambda: self._migration(apply=False))

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

    @asynccontextmanager
    async def _ajar(self) -> AsyncIterator[None]:
        """The database for one look, also if the store isn't open."""
        if self._door.client is not None:
            yield
            return
        async with open_client(self.settings, clock=self._context.clock) as client:
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
            return {"connections": 0, "worker_threads": 0, "waiting_calls": 0}
        return client.held()

    async def server_info(self) -> dict[str, str]:
        """Product and version of the engine."""
        version = plain("SELECT sqlite_version()", columns=("version",))
        [[(found,)]] = await self._door.read("server_info", Step(version))
        embedded = self.settings.target.is_embedded
        return {"product": "SQLite" if embedded else "libSQL server", "version": str(found)}

    async def health(self) -> StoreHealth:
        """How the engine is doing: version, latency, connections, traces of a Node peer."""
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

    def observe(self, observer: Observer | None) -> None:
        """
        Call this for every statement from now on; None stops it.

        It runs in whatever thread ran the statement, and must neither wait nor raise. Stores
        that share the database share the observer.
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
            await self._door.write(
                "prune", Step(plain(retention_index(table, column), writes=True))
            )


class _Door:
    """The executor as domains know it: open or closed, whatever is behind it."""

    def __init__(self, where: str) -> None:
        self.where: str = where
        self.client: Client | None = None
        #: The client that was behind it, so that what it still holds can be told.
        self.left: Client | None = None

    def opened(self) -> Client:
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


def _prefix_of(namespace: str) -> str:
    """A prefix of table names for a namespace; equal namespaces have equal prefixes."""
    if not namespace:
        return ""
    plain_name = re.sub(r"[^A-Za-z0-9]", "_", namespace)
    return f"{plain_name}_" if not plain_name[0].isdigit() else f"_{plain_name}_"
