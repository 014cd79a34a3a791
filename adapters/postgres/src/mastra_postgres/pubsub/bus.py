"""``PostgresPubSub``: the event engine on a PostgreSQL database."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Final

import psycopg
from pydantic import Field

from mastra_core.bus import BusOptions, EventEngine
from mastra_core.bus.topics import check_topic
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.plugins.context import AdapterContext
from mastra_core.rules.migrations import MigrationPlan, script
from mastra_core.wire.events import Event
from mastra_postgres.bus_dialect import PostgresBusDialect
from mastra_postgres.bus_schema import BusSchema, plan_of_parts
from mastra_postgres.capabilities import PUBSUB_CAPABILITIES
from mastra_postgres.dialect import PostgresDialect
from mastra_postgres.lease import PostgresLease, PostgresLeaseSettings
from mastra_postgres.pubsub.driver import PostgresDriver
from mastra_postgres.settings import PREFIX, PostgresConnection
from mastra_postgres.sharing import Place, open_place, plan_of_place
from mastra_sql.bus import BusLimits
from mastra_sql.lease import LeaseStatements

__all__ = ("PostgresPubSub", "PostgresPubSubSettings")

_WEEK_MS: Final = 7 * 24 * 3600 * 1000
#: Events of one claim; a round trip costs more here than sharing a little less evenly.
_CLAIM_BATCH: Final = 32


class PostgresPubSubSettings(PostgresConnection, BusOptions):
    """Options of ``PostgresPubSub``; query parameters ``mastra_*`` of the URL set them, too."""

    url: str
    #: Put in front of every table name.
    prefix: str = Field(default="", pattern=PREFIX)
    #: Never create or change anything; refuse to open what has to be migrated first.
    disable_init: bool = False
    dead_retention_ms: int = Field(default=_WEEK_MS, ge=1)
    #: A group that nobody claims for for so long is forgotten, with what it holds.
    group_ttl_ms: int = Field(default=_WEEK_MS, ge=60_000)
    #: Instead of an hour for topics of runs and a week for others; work queues are kept.
    idle_ttl_ms: int | None = Field(default=None, ge=1)
    sweep_interval_ms: int = Field(default=60_000, ge=10)
    lock_delay_ms: int = Field(default=0, ge=0)
    watch_poll_ms: int = Field(default=1_000, ge=1)

    def limits(self) -> BusLimits:
        """What is kept, and for how long."""
        return BusLimits(
            max_entries=self.max_entries,
            dead_retention_ms=self.dead_retention_ms,
            group_ttl_ms=self.group_ttl_ms,
            idle_ttl_ms=self.idle_ttl_ms,
            sweep_interval_ms=self.sweep_interval_ms,
        )

    def lease_settings(self) -> PostgresLeaseSettings:
        """The same database for leases."""
        values = {name: getattr(self, name) for name in PostgresLeaseSettings.model_fields}
        return PostgresLeaseSettings(**{"schema": values.pop("schema_name"), **values})


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
        plan = plan_of_parts(self._schema, self._schema.bus_parts())
        return script(plan.statements)
