"""What bus and leases of one database have in common: pool, tables, listener."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

from mastra_core.plugins.context import AdapterContext
from mastra_core.rules.migrations import MigrationPlan
from mastra_postgres.bus_schema import BusSchema, bus_migration
from mastra_postgres.client import PostgresClient, share_client
from mastra_postgres.errors import error_id
from mastra_postgres.listener import PostgresDoorbell, open_listener
from mastra_postgres.settings import PostgresConnection
from mastra_sql.executor import read_program
from mastra_sql.migrate import bring_up_to_date
from mastra_sql.schema import Part

__all__ = ("Place", "open_place", "plan_of_place")

#: Seconds that creating tables may take, and waiting for somebody else who does.
_MIGRATION_TIMEOUT: Final = 600.0


class Place(NamedTuple):
    """An open database, as a bus or a lease provider uses it."""

    client: PostgresClient
    bell: PostgresDoorbell


@asynccontextmanager
async def open_place(
    context: AdapterContext,
    settings: PostgresConnection,
    schema: BusSchema,
    parts: Sequence[Part],
    *,
    disable_init: bool,
) -> AsyncIterator[Place]:
    """
    Connect, bring the database up to date, and listen.

    Raises:
        StorageError: One of this can't be.
    """
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(share_client(context, settings))
        await bring_up_to_date(
            client,
            client.where,
            partial(bus_migration, schema, parts),
            disable_init=disable_init,
            error_id=error_id("init"),
            change=partial(client.transact, seconds=_MIGRATION_TIMEOUT),
        )
        place = f"{schema.name}.{schema.prefix}"
        bell = await stack.enter_async_context(
            context.share(
                ("postgres.listener", settings.connection, place),
                lambda: open_listener(client, place, context.ids),
            )
        )
        yield Place(client, bell)


async def plan_of_place(
    context: AdapterContext,
    settings: PostgresConnection,
    schema: BusSchema,
    parts: Sequence[Part],
) -> MigrationPlan:
    """What opening would do to the database right now."""
    async with share_client(context, settings) as client:
        return await read_program(client, "plan", lambda: bus_migration(schema, parts, apply=False))
