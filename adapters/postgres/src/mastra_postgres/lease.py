"""``PostgresLease``: leases in a PostgreSQL database."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from mastra_core.plugins.context import AdapterContext
from mastra_core.rules.migrations import MigrationPlan, script
from mastra_postgres.bus_dialect import PostgresBusDialect
from mastra_postgres.bus_schema import BusSchema
from mastra_postgres.capabilities import LEASE_CAPABILITIES
from mastra_postgres.dialect import PostgresDialect
from mastra_postgres.settings import PostgresLeaseSettings
from mastra_postgres.sharing import Place, open_place, plan_of_place
from mastra_sql.lease import SqlLease

__all__ = ("PostgresLease",)


class PostgresLease(SqlLease):
    """
    A lease provider in a PostgreSQL database.

    Args:
        settings: URL and options, or just the URL.
        context: Clock, ids, and what storage, pubsub and lease of one URL share.
        options: Settings by name, for those who give just the URL.
    """

    def __init__(
        self,
        settings: PostgresLeaseSettings | str,
        context: AdapterContext | None = None,
        **options: Any,
    ) -> None:
        if isinstance(settings, str):
            settings = PostgresLeaseSettings(url=settings, **options)
        context = context or AdapterContext()
        self.settings: PostgresLeaseSettings = settings
        self._context = context
        self._schema = BusSchema(settings.schema_name, settings.prefix)
        super().__init__(
            dialect=PostgresBusDialect(PostgresDialect()),
            tables=self._schema.lease,
            capabilities=LEASE_CAPABILITIES,
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
        )

    # -- administration --------------------------------------------------------------------

    async def plan_migration(self) -> MigrationPlan:
        """What opening would do to the database right now; nothing is changed."""
        parts = self._schema.lease_parts()
        return await plan_of_place(self._context, self.settings, self._schema, parts)

    def export_ddl(self) -> str:
        """Everything that an empty database needs, as SQL text for whoever may run it."""
        plan = self._schema.plan(self._schema.lease_parts())
        return script(plan.statements)
