"""``LibSQLPubSub``: the event engine on a libSQL database."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

from mastra_core.bus import EventEngine
from mastra_core.contracts.pubsub import PubSubCapabilities
from mastra_core.plugins.context import AdapterContext
from mastra_core.rules.migrations import MigrationPlan, script
from mastra_libsql.bus_dialect import bus_dialect
from mastra_libsql.bus_schema import BusSchema
from mastra_libsql.capabilities import MAX_REMOTE_EVENT_BYTES, PUBSUB_CAPABILITIES
from mastra_libsql.dialect import SqliteDialect
from mastra_libsql.lease import LibSQLLease
from mastra_libsql.pubsub.driver import LibSQLDriver
from mastra_libsql.settings import LibSQLPubSubSettings, Target, TargetKind
from mastra_libsql.sharing import Place, open_place, plan_of_place
from mastra_sql.lease import LeaseStatements

__all__ = ("LibSQLPubSub",)


class LibSQLPubSub(EventEngine):
    """
    A bus in a SQLite file, in memory, or on a libSQL server.

    Example::

        async with LibSQLPubSub("file:app-bus.db") as bus:
            await bus.subscribe("greetings", print)

    Args:
        settings: URL and options, or just the URL.
        context: Clock, ids, and what storage, pubsub and lease of one URL share.
        options: Settings by name, for those who give just the URL.
    """

    def __init__(
        self,
        settings: LibSQLPubSubSettings | str,
        context: AdapterContext | None = None,
        **options: Any,
    ) -> None:
        if isinstance(settings, str):
            settings = LibSQLPubSubSettings(url=settings, **options)
        context = context or AdapterContext()
        target = settings.target
        self.options = settings
        self._context = context
        self._schema = BusSchema(settings.prefix)
        dialect = bus_dialect(SqliteDialect(has_own_clock=not target.is_embedded), target)
        self.driver: LibSQLDriver = LibSQLDriver(
            self._open_place,
            is_embedded=target.is_embedded,
            dialect=dialect,
            tables=self._schema.bus,
            leases=LeaseStatements(dialect, self._schema.lease),
            limits=settings.limits(),
            clock=context.clock,
            ids=context.ids,
            capabilities=_capabilities_of(target),
            namespace=f"{context.namespace}:" if context.namespace else "",
        )
        self._lease = LibSQLLease(settings.lease_settings(), context)
        super().__init__(
            self.driver,
            settings=settings.bus_settings(),
            clock=context.clock,
            ids=context.ids,
            name="libsql",
        )

    def get_lease_provider(self) -> LibSQLLease:
        """Leases in the same database."""
        return self._lease

    async def _release_leases(self) -> None:
        await self._lease.aclose()

    def _open_place(self) -> AbstractAsyncContextManager[Place]:
        return open_place(
            self._context,
            self.options,
            self._schema,
            self._schema.bus_parts(),
            disable_init=self.options.disable_init,
            with_doorbell=self.options.doorbell,
        )

    # -- administration --------------------------------------------------------------------

    async def plan_migration(self) -> MigrationPlan:
        """What opening would do to the database right now; nothing is changed."""
        parts = self._schema.bus_parts()
        return await plan_of_place(self._context, self.options, self._schema, parts)

    def export_ddl(self) -> str:
        """Everything that an empty database needs, as SQL text for whoever may run it."""
        plan = self._schema.plan(self._schema.bus_parts())
        return script(plan.statements)


def _capabilities_of(target: Target) -> PubSubCapabilities:
    """A file is seen by its host alone, memory by its process."""
    match target.kind:
        case TargetKind.MEMORY:
            return replace(
                PUBSUB_CAPABILITIES, durable=False, cross_process=False, cross_host=False
            )
        case TargetKind.FILE:
            return replace(PUBSUB_CAPABILITIES, cross_host=False)
        case TargetKind.HTTP | TargetKind.WEBSOCKET:
            return replace(PUBSUB_CAPABILITIES, max_event_bytes=MAX_REMOTE_EVENT_BYTES)
