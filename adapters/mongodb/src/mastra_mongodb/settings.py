"""What may be set for a MongoDB database; one model for storage, pubsub and lease."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import Field

from mastra_core.bus import BusOptions
from mastra_core.errors import InvalidUrlError
from mastra_core.plugins.url_settings import UrlSettings

__all__ = ("DEFAULT_DATABASE", "MongoSettings")

DEFAULT_DATABASE: Final = "mastra"
"""The database that is used if the URL names none."""

_SCHEMES: Final = ("mongodb://", "mongodb+srv://")


class MongoSettings(UrlSettings, BusOptions):
    """
    Options of the MongoDB adapters; query parameters ``mastra_*`` of the URL set them, too.

    All other query parameters are the driver's: ``replicaSet``, ``tls``, ``authSource`` ...

    Example::

        MongoSettings(url="mongodb://localhost/app", pool_size=20)
    """

    #: ``mongodb://user:password@host/database?replicaSet=rs0``, or ``mongodb+srv://…``
    url: str  # pyright: ignore[reportGeneralTypeIssues]  # pydantic takes members by name
    #: The database; else the one in the path of the URL, else ``mastra``.
    database: str | None = Field(default=None, pattern=r"^[^/\\. \"$*<>:|?\x00]+$", max_length=63)
    #: Put in front of every collection name; with one, peers of the other language see nothing.
    prefix: str = Field(default="", pattern=r"^[A-Za-z_]?[A-Za-z0-9_]*$")
    #: Never create or change anything; refuse to open what has to be migrated first.
    disable_init: bool = False
    #: With ``disable_init``: open a database that lacks only what is ours alone, for those who
    #: look into it; writing may fail there.
    allow_unprepared: bool = False
    #: How long one call may take altogether, retries by the driver included.
    request_timeout_ms: int = Field(default=30_000, ge=100, le=600_000)
    #: How long to look for a server, and to connect to it.
    connect_timeout_ms: int = Field(default=10_000, ge=100, le=600_000)
    #: Connections at most; callers beyond wait for one.
    pool_size: int = Field(default=50, ge=1, le=1_000)
    #: Larger snapshots are refused (snapshots.md G12); a document can't be over 16 MiB.
    max_snapshot_bytes: int = Field(default=15 * 1024 * 1024, ge=1024)
    #: How often readers look for events and changes of leases that nobody told them of.
    poll_ms: int = Field(default=500, ge=10, le=60_000)
    #: How stale a watched lease may be seen where nothing is pushed.
    watch_poll_ms: int = Field(default=1_000, ge=10, le=60_000)
    #: A topic that nobody writes for so long is forgotten; 0 keeps it. Work queues are kept.
    idle_ttl_ms: int = Field(default=7 * 24 * 3_600_000, ge=0)
    #: How often what is over is deleted.
    sweep_interval_ms: int = Field(default=60_000, ge=10)
    #: A lease that expired stays ungrantable to others for so long (L13).
    lock_delay_ms: int = Field(default=0, ge=0, le=86_400_000)

    @property
    def address(self) -> str:
        """
        The URL as the driver gets it.

        Raises:
            InvalidUrlError: It is none of ours.
        """
        if not self.url.startswith(_SCHEMES):
            raise InvalidUrlError(url=self.url, reason="it is no MongoDB address")
        return self.url

    @property
    def driver_options(self) -> frozenset[str]:
        """What the URL tells the driver, in lower case; it wins over what we would say."""
        query = urlsplit(self.url).query
        return frozenset(name.lower() for name, _ in parse_qsl(query, keep_blank_values=True))

    @property
    def database_name(self) -> str:
        """The database to use."""
        return self.database or _database_of(self.url) or DEFAULT_DATABASE


def _database_of(url: str) -> str:
    rest = url.partition("?")[0].partition("://")[2]
    return unquote(rest.partition("/")[2])
