"""What may be set for a Redis server, and how its URL is read."""

from __future__ import annotations

from typing import ClassVar, Final
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field

from mastra_core.bus import BusOptions
from mastra_core.errors import InvalidUrlError
from mastra_core.plugins.url_settings import UrlSettings

__all__ = (
    "DEFAULT_KEY_PREFIX",
    "ConnectionOptions",
    "RedisLeaseSettings",
    "RedisPubSubSettings",
    "RedisSettings",
)

DEFAULT_KEY_PREFIX: Final = "mastra:topic"
"""What stands before topics and leases unless both sides agree on something else."""

_SCHEMES: Final = {
    "redis": "redis",
    "rediss": "rediss",
    "redis+unix": "unix",
    "unix": "unix",
}


class ConnectionOptions(UrlSettings):
    """How the server is reached; the same for storage, bus and leases of one URL."""

    #: ``redis://user:password@host:port/db``, ``rediss://…``, ``redis+unix:///path?db=0``.
    url: str
    #: How long connecting may take, with TLS and password.
    connect_timeout_ms: int = Field(default=5_000, ge=50, le=600_000)
    #: How long the server may take to answer one call.
    request_timeout_ms: int = Field(default=10_000, ge=50, le=600_000)
    #: What connections are called in ``CLIENT LIST``.
    client_name: str = Field(default="mastra-py", pattern=r"^[!-~]*$")

    @property
    def driver_url(self) -> str:
        """
        The URL as the driver reads it.

        Raises:
            InvalidUrlError: It is none of ours.
        """
        parts = urlsplit(self.url)
        known = _SCHEMES.get(parts.scheme)
        if known is None:
            raise InvalidUrlError(url=self.url, reason="it is no Redis server")
        if known == "unix" and not parts.path.strip("/"):
            raise InvalidUrlError(url=self.url, reason="it names no socket")
        # Not put together anew: parts of it would look different.
        return known + self.url[len(parts.scheme) :]

    def connection_key(self) -> tuple[object, ...]:
        """Equal for all roles that can share their connections."""
        return (
            "redis.server",
            self.driver_url,
            self.connect_timeout_ms,
            self.request_timeout_ms,
            self.client_name,
        )


class RedisSettings(ConnectionOptions):
    """
    Options of ``RedisStorage``; query parameters ``mastra_*`` of the URL set them, too.

    Example::

        RedisSettings(url="redis://localhost:6379/0", mixed_fleet=False)
    """

    #: Put in front of every key; with one, peers of the other language see nothing.
    prefix: str = ""
    #: Write nothing when the store opens; refuse a server that has to be migrated first.
    disable_init: bool = False
    #: With ``disable_init``: open a database that lacks only what is ours alone, for those who
    #: look into it; writing may fail there.
    allow_unprepared: bool = False
    #: Node processes may write, too, so what they wrote is looked for and indexed.
    mixed_fleet: bool = True
    #: Larger snapshots are refused (snapshots.md G12).
    max_snapshot_bytes: int = Field(default=64 * 1024 * 1024, ge=1024)


class RedisPubSubSettings(ConnectionOptions, BusOptions):
    """Options of ``RedisPubSub``; query parameters ``mastra_*`` of the URL set them, too."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    url: str
    #: What stands before topics and leases; the ``keyPrefix`` of the other side.
    key_prefix: str = Field(default=DEFAULT_KEY_PREFIX, min_length=1)
    #: Streams that nobody writes for so long vanish; 0 keeps all. None: by kind of topic.
    #: All writers of a prefix must agree (``streamIdleTtlMs`` of the other side).
    idle_ttl_ms: int | None = Field(default=None, ge=0)
    #: A hint that got lost costs at most this.
    poll_ms: int = Field(default=1_000, ge=10, le=60_000)
    #: A consumer that says nothing for so long is dead, and what it held goes to others.
    heartbeat_ttl_ms: int = Field(default=15_000, ge=100)
    #: How long given-up events are kept.
    dead_retention_ms: int = Field(default=7 * 24 * 3_600_000, ge=1)
    #: Grant a lease only when so many replicas have it, too.
    wait_replicas: int = Field(default=0, ge=0, le=16)
    lock_delay_ms: int = Field(default=0, ge=0)
    #: How late a change of a lease may be noticed if a notice was lost.
    watch_poll_ms: int = Field(default=1_000, ge=10)

    def lease_settings(self) -> RedisLeaseSettings:
        """What the lease provider of this bus needs of them."""
        names = RedisLeaseSettings.model_fields
        return RedisLeaseSettings(**{name: getattr(self, name) for name in names})


class RedisLeaseSettings(ConnectionOptions):
    """Options of ``RedisLease``; query parameters ``mastra_*`` of the URL set them, too."""

    #: What stands before leases; the ``keyPrefix`` of the other side.
    key_prefix: str = Field(default=DEFAULT_KEY_PREFIX, min_length=1)
    #: A lease that expired stays ungrantable to others for so long (L13).
    lock_delay_ms: int = Field(default=0, ge=0)
    #: Grant a lease only when so many replicas have it, too.
    wait_replicas: int = Field(default=0, ge=0, le=16)
    #: How late a change may be noticed if a notice was lost (L7).
    watch_poll_ms: int = Field(default=1_000, ge=10)
