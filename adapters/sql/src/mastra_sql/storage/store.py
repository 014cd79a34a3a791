"""``SqlStorage``: what the stores of all SQL databases have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import ClassVar, Generic, TypeVar

from mastra_core.base.blocks import OpenInBlocks
from mastra_core.plugins.context import AdapterContext
from mastra_core.rules.migrations import MigrationPlan, script
from mastra_sql.dialect import SqlDialect
from mastra_sql.executor import Observer, Program, ProgramFactory, read_program
from mastra_sql.migrate import bring_up_to_date
from mastra_sql.storage.background_tasks import SqlBackgroundTasks
from mastra_sql.storage.door import Client, Door
from mastra_sql.storage.fences import GUARDED_WRITES
from mastra_sql.storage.host import SqlHost
from mastra_sql.storage.memory import SqlMemory
from mastra_sql.storage.notifications import SqlNotifications
from mastra_sql.storage.schedules import SqlSchedules
from mastra_sql.storage.thread_state import SqlThreadState
from mastra_sql.storage.workflows import SqlWorkflows
from mastra_sql.tables import Tables

__all__ = ("SqlStorage",)

T = TypeVar("T")
C = TypeVar("C", bound=Client)


class SqlStorage(OpenInBlocks, Generic[C]):
    """
    The six domains in one SQL database; an adapter says how to open and to migrate it.

    Args:
        where: File or server, without secrets.
        dialect: Expressions of the database.
        tables: Where everything is.
        context: Clock, ids, and what storage, pubsub and lease of one URL share.
        disable_init: Never create or change anything.
        allow_unprepared: With it, open a database that lacks only what is ours alone.
        max_snapshot_bytes: The largest snapshot.
    """

    name: ClassVar[str]
    capabilities: frozenset[str]

    def __init__(
        self,
        *,
        where: str,
        dialect: SqlDialect,
        tables: Tables,
        context: AdapterContext,
        disable_init: bool,
        max_snapshot_bytes: int,
        allow_unprepared: bool = False,
    ) -> None:
        self._context = context
        self._tables = tables
        self._disable_init = disable_init
        self._allow_unprepared = allow_unprepared
        self._door: Door[C] = Door(where, error_id=self._error_id("open"))
        #: What is shared with other users of the database, while the store is open.
        self._opened: AsyncExitStack | None = None
        host = SqlHost(
            executor=self._door,
            dialect=dialect,
            tables=tables,
            clock=context.clock,
            ids=context.ids,
            retention_index=self._add_retention_index,
            max_snapshot_bytes=max_snapshot_bytes,
        )
        self._memory = SqlMemory(host)
        self._workflows = SqlWorkflows(host)
        self._notifications = SqlNotifications(host)
        self._thread_state = SqlThreadState(host)
        self._background_tasks = SqlBackgroundTasks(host)
        self._schedules = SqlSchedules(host)

    # -- what an adapter gives -------------------------------------------------------------

    @abstractmethod
    def _share_client(self) -> AbstractAsyncContextManager[C]:
        """The client that all users of the database in this context have in common."""

    @abstractmethod
    def _open_client(self) -> AbstractAsyncContextManager[C]:
        """A client for a moment."""

    @abstractmethod
    def _migration(self, *, apply: bool) -> Program[MigrationPlan]:
        """Look what is missing and, if told so, add it."""

    @abstractmethod
    def _plan_of_nothing(self) -> MigrationPlan:
        """Everything that an empty database needs."""

    @abstractmethod
    async def _create_retention_index(self, table: str, column: str) -> None:
        """Create the index that pruning a table by this column needs, if it is missing."""

    async def _change(self, operation: str, program: ProgramFactory[T]) -> T:
        """Run a program that changes tables, which may take long."""
        return await self._door.transact(operation, program)

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
            StorageSchemaError: The database is too old or too new, or something is missing and
                ``disable_init`` is set.
            StorageError: The database can't be opened, or refuses us.
        """
        if self._opened is not None:
            return
        async with AsyncExitStack() as stack:
            self._door.client = await stack.enter_async_context(self._share_client())
            try:
                missing = await bring_up_to_date(
                    self._door,
                    self._door.where,
                    self._migration,
                    disable_init=self._disable_init,
                    error_id=self._error_id("init"),
                    change=self._change,
                    allow_unprepared=self._allow_unprepared,
                )
            except BaseException:
                self._door.client = None
                raise
            if any(self._tables.fences.name in statement for statement in missing):
                self.capabilities -= {GUARDED_WRITES}
                self._memory.is_guarding = False
            self._opened = stack.pop_all()

    async def aclose(self) -> None:
        """Close the database if nobody else uses it; every later call raises."""
        opened, self._opened = self._opened, None
        self._door.close()
        if opened is not None:
            await opened.aclose()

    # -- administration --------------------------------------------------------------------

    async def plan_migration(self) -> MigrationPlan:
        """
        What ``init`` would do to the database right now; nothing is changed.

        Opens the database for the moment if the store isn't open.
        """
        async with self._ajar():
            return await read_program(self._door, "plan", lambda: self._migration(apply=False))

    @asynccontextmanager
    async def _ajar(self) -> AsyncIterator[None]:
        """The database for one look, also if the store isn't open."""
        if self._door.client is not None:
            yield
            return
        async with self._open_client() as client:
            self._door.client = client
            try:
                yield
            finally:
                self._door.client = None

    def export_ddl(self) -> str:
        """Everything that an empty database needs, as SQL text for whoever may run it."""
        return script(self._plan_of_nothing().statements)

    def open_resources(self) -> Mapping[str, int]:
        """
        What the store holds open right now, by kind; looks at nothing but itself.

        After ``aclose()`` every number is 0, unless another store of the same context still
        uses the database: what is shared belongs to its last user.
        """
        return self._door.held()

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

    async def _add_retention_index(self, table: str, column: str) -> None:
        if not self._disable_init:
            await self._create_retention_index(table, column)

    def _error_id(self, operation: str) -> str:
        return f"MASTRA_STORAGE_{self.name.upper()}_{operation.upper()}_FAILED"
