"""What bus and leases of one database share in a process: pool, collections, one feed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from mastra_core.base.clock import Clock
from mastra_core.plugins.context import AdapterContext
from mastra_core.rules.migrations import not_migrated
from mastra_mongodb.errors import error_id
from mastra_mongodb.feed import Feed
from mastra_mongodb.migrate import MigrationPlan, apply_plan, look, plan_of_nothing
from mastra_mongodb.pool import Collection, MongoPool, open_pool, pool_key
from mastra_mongodb.schema import (
    CHUNKS,
    DEAD,
    EVENTS,
    FENCES,
    GROUPS,
    LEASES,
    TOPICS,
    WAKE,
    Names,
    bus_component,
)
from mastra_mongodb.settings import MongoSettings

__all__ = ("Place", "ddl_of_place", "open_place", "plan_of_place", "share_place")


class Place:
    """
    An open database as the bus sees it.

    Args:
        pool: Open.
        settings: The prefix of its collections.
        clock: Measures pauses.
    """

    def __init__(self, pool: MongoPool, settings: MongoSettings, clock: Clock) -> None:
        self.pool = pool
        self.names = Names(settings.prefix)
        self.feed = Feed(pool, self.names, clock)

    def topics(self, *, relaxed: bool = True) -> Collection:
        """One document per topic."""
        return self.pool.collection(self.names(TOPICS), relaxed=relaxed)

    def events(self, *, relaxed: bool = False) -> Collection:
        """The log."""
        return self.pool.collection(self.names(EVENTS), relaxed=relaxed)

    def chunks(self, *, relaxed: bool = False) -> Collection:
        """Pieces of long events."""
        return self.pool.collection(self.names(CHUNKS), relaxed=relaxed)

    def groups(self, *, relaxed: bool = False) -> Collection:
        """One document per group of a topic."""
        return self.pool.collection(self.names(GROUPS), relaxed=relaxed)

    def dead(self) -> Collection:
        """Dead letters."""
        return self.pool.collection(self.names(DEAD))

    def leases(self) -> Collection:
        """One document per key."""
        return self.pool.collection(self.names(LEASES))

    def fences(self) -> Collection:
        """The newest fence that a guarded write carried, by key."""
        return self.pool.collection(self.names(FENCES))

    def wake(self) -> Collection:
        """Hints, where there are no change streams."""
        return self.pool.collection(self.names(WAKE))


def share_place(
    settings: MongoSettings, context: AdapterContext
) -> AbstractAsyncContextManager[Place]:
    """The open database of these settings, with all others of the context who want it."""
    key = ("mongodb.bus", pool_key(settings), settings.prefix, settings.disable_init)
    return context.share(key, lambda: open_place(settings, context))


@asynccontextmanager
async def open_place(settings: MongoSettings, context: AdapterContext) -> AsyncIterator[Place]:
    """
    Open the database and bring its collections up to date.

    Raises:
        StorageSchemaError: The database is newer, or has to be migrated and ``disable_init``
            is set.
    """
    async with context.share(pool_key(settings), lambda: open_pool(settings)) as pool:
        place = Place(pool, settings, context.clock)
        component = bus_component(place.names)
        plan = await look(pool, component, place.names)
        if plan and settings.disable_init:
            raise not_migrated(pool.where, plan.statements, error_id=error_id("init"))
        if plan:
            await apply_plan(pool, plan, component, place.names)
        try:
            yield place
        finally:
            await place.feed.close()


async def plan_of_place(settings: MongoSettings) -> MigrationPlan:
    """
    What opening would do to the collections of bus and leases; nothing is changed.

    Raises:
        StorageSchemaError: The database is newer than this version.
    """
    names = Names(settings.prefix)
    async with open_pool(settings) as pool:
        return await look(pool, bus_component(names), names)


def ddl_of_place(settings: MongoSettings) -> str:
    """Everything that bus and leases need of an empty database, for the MongoDB shell."""
    names = Names(settings.prefix)
    return plan_of_nothing(bus_component(names), names).script
