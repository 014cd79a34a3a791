"""Which version of our additions a Redis database holds.

Redis has no tables: records need nothing before they are written, and indexes are made by the
scripts that write. What is kept is one number, so that an older version of this package doesn't
write into a database whose indexes a newer one keeps in another way.
"""

from __future__ import annotations

from typing import Final

from mastra_core.rules.migrations import MigrationPlan, too_new
from mastra_redis.errors import error_id
from mastra_redis.storage.host import Host

__all__ = (
    "COMPONENT",
    "SCHEMA_VERSION",
    "found_version",
    "migrate",
    "plan",
    "statement",
)

COMPONENT: Final = "storage"
"""Field of the hash ``mastra_py_schema`` that holds the version."""

SCHEMA_VERSION: Final = 1
"""Raised whenever indexes are kept in another way."""


async def found_version(host: Host) -> int:
    """
    The version that the database holds.

    Raises:
        StorageSchemaError: It is newer than this package.
    """
    found = await host.read("plan_migration", "HGET", host.keys.schema, COMPONENT)
    version = int(found or 0)
    if version > SCHEMA_VERSION:
        raise too_new(
            host.where,
            COMPONENT,
            found=version,
            known=SCHEMA_VERSION,
            package="mastra-redis",
            error_id=error_id("init"),
        )
    return version


async def plan(host: Host) -> MigrationPlan:
    """What ``migrate`` would do; changes nothing."""
    version = await found_version(host)
    statements: tuple[str, ...] = ()
    if version < SCHEMA_VERSION:
        statements = (statement(host),)
    return MigrationPlan(
        found_version=version, target_version=SCHEMA_VERSION, statements=statements
    )


def statement(host: Host) -> str:
    """The one command that an empty database needs."""
    key = host.keys.schema.decode("utf-8", "backslashreplace")
    return f"HSET {key} {COMPONENT} {SCHEMA_VERSION}"


async def migrate(host: Host) -> None:
    """Bring the database to this version, in one step of the server."""
    version = await host.script(
        "init", "schema_set", [host.keys.schema], [COMPONENT, SCHEMA_VERSION]
    )
    if version > SCHEMA_VERSION:
        await found_version(host)
