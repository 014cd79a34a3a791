"""``MongoPubSub``: the event engine on a MongoDB database."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mastra_core.base.redact import redact_url
from mastra_core.bus import EventEngine
from mastra_core.plugins.context import AdapterContext
from mastra_mongodb.errors import bus_errors
from mastra_mongodb.lease import MongoLease
from mastra_mongodb.migrate import MigrationPlan
from mastra_mongodb.pubsub.driver import MongoDriver
from mastra_mongodb.settings import MongoSettings
from mastra_mongodb.sharing import ddl_of_place, plan_of_place, share_place

__all__ = ("MongoPubSub",)


class MongoPubSub(EventEngine):
    """
    A durable bus that all processes with the database share.

    Example::

        async with MongoPubSub("mongodb://localhost/app?replicaSet=rs0") as bus:
            await bus.publish("news", Event(type="hello", run_id="r", data={}))

    Args:
        settings: URL and options, or just the URL.
        context: Clock, ids, and what storage, pubsub and lease of one URL share.
        options: Settings by name, for those who give just the URL.
    """

    def __init__(
        self,
        settings: MongoSettings | str,
        context: AdapterContext | None = None,
        **options: Any,
    ) -> None:
        if isinstance(settings, str):
            settings = MongoSettings(url=settings, **options)
        context = context or AdapterContext()
        self._mongo_settings = settings
        self._mongo = MongoDriver(
            settings,
            share_place(settings, context),
            where=redact_url(settings.address),
            clock=context.clock,
            ids=context.ids,
            namespace=context.namespace,
        )
        self._lease = MongoLease(settings, context)
        super().__init__(
            self._mongo,
            settings=settings.bus_settings(),
            clock=context.clock,
            ids=context.ids,
            rng=random.Random(),  # noqa: S311 – spreads retries, protects nothing
            name="mongodb",
        )

    def get_lease_provider(self) -> MongoLease:
        """The leases of the same database."""
        return self._lease

    async def plan_migration(self) -> MigrationPlan:
        """What opening would do to the database right now; nothing is changed."""
        with bus_errors("plan", redact_url(self._mongo_settings.url)):
            return await plan_of_place(self._mongo_settings)

    def export_ddl(self) -> str:
        """Everything that an empty database needs, for the MongoDB shell."""
        return ddl_of_place(self._mongo_settings)

    def open_resources(self) -> Mapping[str, int]:
        """What the bus holds open right now, by kind."""
        return {"drivers": int(self._mongo.is_open)}

    async def _release_leases(self) -> None:
        await self._lease.aclose()
