"""What may be set for a PostgreSQL database, and what its URL means."""

from __future__ import annotations

from typing import Final, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import Field, SecretStr, field_validator

from mastra_core.base.redact import redact_url
from mastra_core.errors import InvalidUrlError
from mastra_core.plugins.url_settings import UrlSettings
from mastra_sql.options import SqlBusOptions, SqlLeaseOptions

__all__ = (
    "PREFIX",
    "PostgresConnection",
    "PostgresLeaseSettings",
    "PostgresPubSubSettings",
    "PostgresSettings",
)

#: What a prefix of table names looks like.
#: Longer ones would make PostgreSQL cut the names of tables, in silence.
PREFIX: Final = r"^([A-Za-z_][A-Za-z0-9_]{0,29})?$"
_SCHEMES: Final = frozenset({"postgresql", "postgres", "postgresql+psycopg", "postgres+psycopg"})


class PostgresConnection(UrlSettings):
    """How a database is reached; users of one database with equal values share a pool."""

    #: ``postgresql://user:password@host:port/database?...``
    url: str
    #: The part after ``+`` of the URL's scheme; there is one driver.
    driver: Literal["psycopg"] | None = None
    #: Password, if it shouldn't stand in the URL.
    password: SecretStr | None = None
    #: Schema of all tables, as ``schemaName`` of the TypeScript store.
    schema_name: str = Field(default="public", alias="schema", pattern=r"^[A-Za-z_][A-Za-z0-9_$]*$")
    #: How many connections at most; concurrent calls share them.
    pool_size: int = Field(default=4, ge=1, le=200)
    #: How many of them may be shared by single statements at once.
    shared_connections: int = Field(default=2, ge=1, le=200)
    #: How long a transaction waits for a free connection.
    pool_timeout_ms: int = Field(default=30_000, ge=1, le=600_000)
    #: How long connecting may take.
    connect_timeout_ms: int = Field(default=10_000, ge=100, le=600_000)
    #: How long the server may work on one call before it is cancelled.
    statement_timeout_ms: int = Field(default=30_000, ge=100, le=3_600_000)
    #: Prepare each shape of a statement once per connection. ``auto`` stops doing so when a
    #: pooler in between loses them; ``off`` is for old poolers in transaction mode.
    prepared_statements: Literal["auto", "on", "off"] = "auto"

    @property
    def conninfo(self) -> str:
        """
        The URL as libpq understands it.

        Raises:
            InvalidUrlError: It is none of PostgreSQL.
        """
        if urlsplit(self.url).scheme not in _SCHEMES:
            raise InvalidUrlError(url=redact_url(self.url), reason="it is no PostgreSQL address")
        scheme, rest = self.url.split(":", 1)
        return f"{scheme.partition('+')[0]}:{rest}"

    @property
    def where(self) -> str:
        """The database without secrets, for messages."""
        return redact_url(self.conninfo.partition("?")[0])

    @property
    def connection(self) -> PostgresConnection:
        """Only what decides about the pool."""
        values = {name: getattr(self, name) for name in PostgresConnection.model_fields}
        return PostgresConnection(**{"schema": values.pop("schema_name"), **values})


class PostgresSettings(PostgresConnection):
    """
    Options of ``PostgresStorage``; query parameters ``mastra_*`` of the URL set them, too.

    What else stands in the URL goes to libpq as it is: ``sslmode``, ``options``, ...

    Example::

        PostgresSettings(url="postgresql://app@db/app?mastra_schema=agents", pool_size=8)
    """

    #: Put in front of every table name; with one, peers of the other language see nothing.
    prefix: str = Field(default="", pattern=PREFIX)
    #: Never create or change anything; refuse to open what has to be migrated first.
    disable_init: bool = False
    #: With ``disable_init``: open a database that lacks only what is ours alone, for those who
    #: look into it; writing may fail there.
    allow_unprepared: bool = False
    #: Zone of the naive time columns; the ``TZ`` of all Node processes on the database.
    naive_timezone: str = "UTC"
    #: How new snapshots are compressed, if this package may change tables.
    snapshot_compression: Literal["auto", "lz4", "pglz", "unchanged"] = "auto"
    #: Larger snapshots are refused (snapshots.md G12).
    max_snapshot_bytes: int = Field(default=64 * 1024 * 1024, ge=1024)

    @field_validator("naive_timezone")
    @classmethod
    def _check_timezone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (LookupError, OSError, ValueError) as exc:
            raise ValueError(f"{name!r} is no time zone, e.g. 'UTC' or 'Europe/Berlin'") from exc
        return name


class PostgresPubSubSettings(PostgresConnection, SqlBusOptions):
    """Options of ``PostgresPubSub``; query parameters ``mastra_*`` of the URL set them, too."""

    url: str
    #: Put in front of every table name.
    prefix: str = Field(default="", pattern=PREFIX)

    def lease_settings(self) -> PostgresLeaseSettings:
        """The same database for leases."""
        values = {name: getattr(self, name) for name in PostgresLeaseSettings.model_fields}
        return PostgresLeaseSettings(**{"schema": values.pop("schema_name"), **values})


class PostgresLeaseSettings(PostgresConnection, SqlLeaseOptions):
    """Options of ``PostgresLease``; query parameters ``mastra_*`` of the URL set them, too."""

    #: Put in front of every table name.
    prefix: str = Field(default="", pattern=PREFIX)
