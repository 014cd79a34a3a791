"""What bus and leases of one database have in common: client, tables, time, doorbell."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from mastra_core.errors import StorageSchemaError
from mastra_core.plugins.context import AdapterContext
from mastra_core.rules.migrations import MigrationPlan
from mastra_libsql.bus_schema import BusSchema, bus_migration
from mastra_libsql.client import Client, share_client
from mastra_libsql.doorbell import bell_folder, open_doorbell
from mastra_libsql.embedded import EmbeddedExecutor
from mastra_libsql.errors import error_id
from mastra_libsql.file_systems import check_file_system
from mastra_libsql.settings import LibSQLConnection, TargetKind
from mastra_sql.bus import Doorbell, LocalDoorbell
from mastra_sql.executor import Program, Step, read_program
from mastra_sql.migrate import bring_up_to_date
from mastra_sql.schema import Part
from mastra_sql.statement import plain

__all__ = ("Place", "open_place", "plan_of_place")


class Place:
    """An open database, as a bus or a lease provider uses it."""

    def __init__(self, client: Client, bell: Doorbell) -> None:
        self.client = client
        self.bell = bell


@asynccontextmanager
async def open_place(
    context: AdapterContext,
    settings: LibSQLConnection,
    schema: BusSchema,
    parts: Sequence[Part],
    *,
    disable_init: bool,
    with_doorbell: bool,
) -> AsyncIterator[Place]:
    """
    Open the database, bring it up to date, agree on the time, and listen.

    Raises:
        StorageError: One of this can't be.
    """
    target = settings.target
    if target.kind is TargetKind.FILE:
        check_file_system(Path(target.address))
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(share_client(context, settings))
        await bring_up_to_date(
            client,
            client.where,
            partial(bus_migration, schema, parts),
            disable_init=disable_init,
            error_id=error_id("init"),
        )
        if isinstance(client, EmbeddedExecutor):
            await _check_journal(client, is_file=target.kind is TargetKind.FILE)
            await _agree_on_time(client, schema)
        bell = await stack.enter_async_context(
            _doorbell(context, settings, client, with_doorbell=with_doorbell)
        )
        yield Place(client, bell)


async def plan_of_place(
    context: AdapterContext,
    settings: LibSQLConnection,
    schema: BusSchema,
    parts: Sequence[Part],
) -> MigrationPlan:
    """What opening would do to the database right now; looking creates no file."""
    if settings.target.is_new():
        return schema.plan(parts)
    async with share_client(context, settings) as client:
        return await read_program(client, "plan", lambda: bus_migration(schema, parts, apply=False))


_JOURNAL: Final = plain("PRAGMA journal_mode", columns=("mode",))


async def _check_journal(client: EmbeddedExecutor, *, is_file: bool) -> None:
    """
    Refuse a file that several processes can't write to at once.

    Raises:
        StorageSchemaError: It isn't in WAL mode, and can't be.
    """
    [[(mode,)]] = await client.read("init", Step(_JOURNAL))
    if is_file and mode != "wal":
        raise StorageSchemaError(
            f"{client.where} can't be switched to WAL (its journal mode is {mode!r}), so several "
            "processes can't share a bus or leases in it.",
            id=error_id("init"),
            hint="Keep the file on a local disk, and let no other program hold it open.",
        )


async def _agree_on_time(client: EmbeddedExecutor, schema: BusSchema) -> None:
    """All processes of one start of the machine count from one base."""
    time = client.time
    if time.is_agreed:
        return
    table = schema.clock.name
    look = plain(f'SELECT "baseUs" FROM {table} WHERE "bootId" = ?', columns=("baseUs",))  # noqa: S608
    add = plain(f'INSERT INTO {table} ("bootId", "baseUs") VALUES (?, ?)', writes=True)  # noqa: S608
    forget = plain(f'DELETE FROM {table} WHERE "bootId" <> ?', writes=True)  # noqa: S608

    def agree() -> Program[int]:
        [rows] = yield [Step(look, (time.boot,))]
        if rows:
            return int(rows[0][0])
        base_us = time.proposal_us()
        yield [Step(forget, (time.boot,)), Step(add, (time.boot, base_us))]
        return base_us

    [rows] = await client.read("init", Step(look, (time.boot,)))
    time.agree(int(rows[0][0]) if rows else await client.transact("init", agree))


def _doorbell(
    context: AdapterContext,
    settings: LibSQLConnection,
    client: Client,
    *,
    with_doorbell: bool,
) -> AbstractAsyncContextManager[Doorbell]:
    """The doorbell of a file; elsewhere the one that only this process hears."""
    target = settings.target
    if isinstance(client, EmbeddedExecutor) and target.kind is TargetKind.FILE:
        can_ring = with_doorbell and hasattr(socket, "AF_UNIX") and hasattr(os, "getuid")
        folder = bell_folder(target.address) if can_ring else None
        return context.share(
            ("libsql.doorbell", target.address, with_doorbell),
            lambda: open_doorbell(folder, client.open_probe),
        )
    return context.share(("libsql.doorbell", settings.connection), _open_local)


@asynccontextmanager
async def _open_local() -> AsyncIterator[LocalDoorbell]:
    yield LocalDoorbell()
