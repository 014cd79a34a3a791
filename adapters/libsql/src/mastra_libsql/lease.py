"""``LibSQLLease``: leases in a libSQL database."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

from mastra_core.contracts.lease import LeaseCapabilities
from mastra_core.plugins.context import AdapterContext
from mastra_core.rules.migrations import MigrationPlan, script
from mastra_libsql.bus_dialect import bus_dialect
from mastra_libsql.bus_schema import BusSchema
from mastra_libsql.capabilities import LEASE_CAPABILITIES
from mastra_libsql.dialect import SqliteDialect
from mastra_libsql.settings import LibSQLLeaseSettings, Target, TargetKind
from mastra_libsql.sharing import Place, open_place, plan_of_place
from mastra_sql.executor import Executor, Rows, Step, atomic
from mastra_sql.lease import SqlLease

__all__ = ("LibSQLLease",)


class LibSQLLease(SqlLease):
    """
    A lease provider in a SQLite file, in memory, or on a libSQL server.

    Args:
        settings: URL and options, or just the URL.
        context: Clock, ids, and what storage, pubsub and lease of one URL share.
        options: Settings by name, for those who give just the URL.
    """

    def __init__(
        self,
        settings: LibSQLLeaseSettings | str,
        context: AdapterContext | None = None,
        **options: Any,
    ) -> None:
        if isinstance(settings, str):
            settings = LibSQLLeaseSettings(url=settings, **options)
        context = context or AdapterContext()
        target = settings.target
        self.settings: LibSQLLeaseSettings = settings
        self._context = context
        self._schema = BusSchema(settings.prefix)
        super().__init__(
            dialect=bus_dialect(SqliteDialect(has_own_clock=not target.is_embedded), target),
            tables=self._schema.lease,
            capabilities=_capabilities_of(target),
            clock=context.clock,
            ids=context.ids,
            lock_delay_ms=settings.lock_delay_ms,
            watch_poll_ms=settings.watch_poll_ms,
            namespace=f"{context.namespace}:" if context.namespace else "",
        )

    def _open_place(self) -> AbstractAsyncContextManager[Place]:
        return open_place(
            self._context,
            self.settings,
            self._schema,
            self._schema.lease_parts(),
            disable_init=self.settings.disable_init,
            with_doorbell=self.settings.doorbell,
        )

    async def _acquire(self, executor: Executor, acquire: Step, look: Step) -> tuple[Rows, Rows]:
        if self.settings.target.is_embedded:
            return await super()._acquire(executor, acquire, look)
        # Both in one request: the way to a server is longer than a statement.
        granted, looked = await executor.transact("acquire", atomic(acquire, look))
        return granted, looked

    # -- administration --------------------------------------------------------------------

    async def plan_migration(self) -> MigrationPlan:
        """What opening would do to the database right now; nothing is changed."""
        parts = self._schema.lease_parts()
        return await plan_of_place(self._context, self.settings, self._schema, parts)

    def export_ddl(self) -> str:
        """Everything that an empty database needs, as SQL text for whoever may run it."""
        plan = self._schema.plan(self._schema.lease_parts())
        return script(plan.statements)


def _capabilities_of(target: Target) -> LeaseCapabilities:
    """A file keeps out its host, memory its process."""
    match target.kind:
        case TargetKind.MEMORY:
            return replace(LEASE_CAPABILITIES, cross_process=False, cross_host=False)
        case TargetKind.FILE:
            return replace(LEASE_CAPABILITIES, cross_host=False)
        case TargetKind.HTTP | TargetKind.WEBSOCKET:
            return LEASE_CAPABILITIES
