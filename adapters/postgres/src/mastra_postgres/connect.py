"""Opening one connection."""

from __future__ import annotations

from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from mastra_core.errors import InvalidUrlError, StorageSchemaError
from mastra_postgres.settings import PostgresConnection

__all__ = ("MINIMUM_SERVER", "check_server", "connect")

MINIMUM_SERVER: Final = 15
"""The oldest major version that this package is tested with."""


async def connect(settings: PostgresConnection) -> psycopg.AsyncConnection[Any]:
    """
    An open connection in autocommit mode.

    No setting of its session is changed, so that poolers may give it to others in between.

    Raises:
        InvalidUrlError: libpq doesn't understand the URL.
        StorageSchemaError: The server is too old.
    """
    connection = await psycopg.AsyncConnection.connect(
        settings.conninfo, autocommit=True, prepare_threshold=None, **_parameters(settings)
    )
    try:
        check_server(connection.pgconn.server_version, settings.where)
    except BaseException:
        await connection.close()
        raise
    return connection


def check_server(version: int, where: str) -> None:
    """
    Refuse a server that lacks something.

    Raises:
        StorageSchemaError: It is older than what this package is tested with.
    """
    major = version // 10_000
    if major < MINIMUM_SERVER:
        raise StorageSchemaError(
            f"{where} is PostgreSQL {major}; {MINIMUM_SERVER} or later is needed.",
            hint="Upgrade the server.",
            details={"found": major, "needed": MINIMUM_SERVER},
        )


def _parameters(settings: PostgresConnection) -> dict[str, Any]:
    try:
        given = conninfo_to_dict(settings.conninfo)
    except psycopg.ProgrammingError as exc:
        raise InvalidUrlError(
            url=settings.where, reason=f"libpq refuses it: {str(exc).strip()}"
        ) from exc
    found: dict[str, Any] = {"client_encoding": "utf8"}
    if "application_name" not in given:
        found["application_name"] = "mastra-py"
    if "connect_timeout" not in given:
        found["connect_timeout"] = max(2, -(-settings.connect_timeout_ms // 1000))
    if settings.password is not None:
        found["password"] = settings.password.get_secret_value()
    return found
