"""``PostgresPubSub``: the event engine on a PostgreSQL database."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Final

import psycopg

from mastra_core.bus import EventEngine
from mastra_core.bus.topics import check_topic
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.plugins.context import AdapterContext
from mastra_core.rules.migrations import MigrationPlan, script
from mastra_core.wire.events import Event
from mastra_postgres.bus_dialect import PostgresBusDialect
from mastra_postgres.bus_schema import BusSchema
from mastra_postgres.capabilities import PUBSUB_CAPABILITIES
from mastra_postgres.dialect import PostgresDialect
from mastra_postgres.lease import PostgresLease
from mastra_postgres.pubsub.driver import PostgresDriver
from mastra_postgres.settings import PostgresPubSubSettings
from mastra_postgres.sharing import Place, open_place, plan_of_place
from mastra_sql.lease import LeaseStatements

__all__ = ("PostgresPubSub",)

#: Events of one claim; a round trip costs more here than sharing a little less evenly.
_CLAIM_BATCH: Final = 32


class PostgresPubSub(EventEngine):
    """
    A bus in a PostgreSQL database.

    Example::

        async with PostgresPubSub("postgresql://app@db/app") as bus:
            await bus.subscribe("greetings", print)

    Args:
        settings: URL and options, or just the URL.
        context: Clock, ids, and what storage, pubsub and lease of one URL share.
        options: Settings by name, for those who give just the URL.
    """

    def __init__(
        self,
        settings: PostgresPubSubSettings | str,
        context: AdapterContext | None = None,
        **options: Any,
    ) -> None:
        if isinstance(settings, str):
            settings = PostgresPubSubSettings(url=settings, **options)
        context = context or AdapterContext()
        self.options: PostgresPubSubSettings = settings
        self._context = context
        self._schema = BusSchema(settings.schema_name, settings.prefix)
        dialect = PostgresBusDialect(
            PostgresDialect(scope=f"{settings.schema_name}.{settings.prefix}")
        )
        self.driver: PostgresDriver = PostgresDriver(
            self._open_place,
            schema=self._schema,
            dialect=dialect,
            leases=LeaseStatements(dialect, self._schema.lease),
            limits=settings.limits(),
            clock=context.clock,
            ids=context.ids,
            capabilities=PUBSUB_CAPABILITIES,
            namespace=f"{context.namespace}:" if context.namespace else "",
        )
        self._lease = PostgresLease(settings.lease_settings(), context)
        super().__init__(
            self.driver,
            settings=replace(settings.bus_settings(), claim_batch=_CLAIM_BATCH),
            clock=context.clock,
            ids=context.ids,
            name="postgres",
        )

    async def publish(
        self,
        topic: str,
        event: Event,
        *,
        local_only: bool = False,
        dedupe_id: str | None = None,
        fence: FenceToken | None = None,
        conn: psycopg.AsyncConnection[Any] | None = None,
    ) -> None:
        """
        Put the event into the topic's log.

        Args:
            topic: Any non-empty text of at most 1024 UTF-8 bytes.
            event: ``id`` and ``created_at`` are set by the transport.
            local_only: Subscribers of this instance only, by reference, without history.
            dedupe_id: A second publish with it stores nothing.
            fence: Refused if a newer owner has been seen for the lease key.
            conn: Your own connection, in a transaction: the event is there if and when that
                commits. Neither ``local_only`` nor ``fence`` go with it.
        """
        if conn is None:
            await super().publish(
                topic, event, local_only=local_only, dedupe_id=dedupe_id, fence=fence
            )
            return
        if local_only or fence is not None:
            raise ValueError("conn goes with neither local_only nor fence.")
        await self._ready()
        check_topic(topic)
        outgoing = self._outgoing(topic, event, dedupe_id)
        await self.driver.append_within(conn, topic, outgoing)

    @property
    def is_notified(self) -> bool:
        """Whether notifications reach this process; if not, it looks every 100 ms."""
        bell = self.driver.bell
        return bell is not None and bell.is_listening

    @property
    def followed_channels(self) -> frozenset[str]:
        """The channels of the server that somebody here follows, leases included."""
        bell = self.driver.bell
        return frozenset() if bell is None else bell.followed_channels

    def get_lease_provider(self) -> PostgresLease:
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
