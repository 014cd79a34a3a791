"""What may be set for a libSQL database, and what its URL means."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Final, Literal
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from mastra_core.errors import InvalidUrlError
from mastra_core.plugins.url_settings import UrlSettings
from mastra_sql.options import SqlBusOptions, SqlLeaseOptions

__all__ = (
    "PREFIX",
    "LibSQLConnection",
    "LibSQLLeaseSettings",
    "LibSQLPubSubSettings",
    "LibSQLSettings",
    "Target",
    "TargetKind",
)

#: What a prefix of table names looks like.
PREFIX: Final = r"^[A-Za-z_]?[A-Za-z0-9_]*$"
_MEMORY: Final = frozenset({":memory:", "file::memory:", "file::memory:?cache=shared"})
_REMOTE: Final = {
    "libsql": "libsql",
    "libsql+http": "http",
    "libsql+https": "https",
    "libsql+ws": "ws",
    "libsql+wss": "wss",
    "http": "http",
    "https": "https",
    "ws": "ws",
    "wss": "wss",
}


class TargetKind(StrEnum):
    """Where the database is."""

    MEMORY = "memory"
    FILE = "file"
    HTTP = "http"
    WEBSOCKET = "websocket"


class Target(BaseModel):
    """One database, as the clients need it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    kind: TargetKind
    #: Path of the file, or address of the server without credentials.
    address: str
    auth_token: SecretStr | None = None

    @property
    def is_embedded(self) -> bool:
        """Whether the database runs inside this process."""
        return self.kind in {TargetKind.MEMORY, TargetKind.FILE}

    def is_new(self) -> bool:
        """Whether opening would create a file."""
        return self.kind is TargetKind.FILE and not Path(self.address).exists()


class LibSQLConnection(UrlSettings):
    """How a database is reached; users of one database with equal values share a client."""

    #: ``file:path``, ``:memory:``, ``libsql://host``, ``libsql+http://host:port`` ...
    url: str
    #: How to reach a ``libsql://`` server; the part after ``+`` of the URL.
    driver: Literal["http", "https", "ws", "wss"] | None = None
    #: Token for a libSQL server; also ``authToken`` in the URL.
    auth_token: SecretStr | None = None
    #: How long a writer waits for other processes before it gives up.
    busy_timeout_ms: int = Field(default=10_000, ge=0, le=600_000)
    #: How long a server may take to answer.
    request_timeout_ms: int = Field(default=30_000, ge=100, le=600_000)
    #: How many writers may be at a server at once; more of them livelock it.
    max_remote_writers: int = Field(default=4, ge=1, le=64)

    @property
    def target(self) -> Target:
        """
        What the URL means.

        Raises:
            InvalidUrlError: It is none of ours.
        """
        return _target(self.url, self.driver, self.auth_token)

    @property
    def connection(self) -> LibSQLConnection:
        """Only what decides about the client."""
        return LibSQLConnection(
            **{name: getattr(self, name) for name in LibSQLConnection.model_fields}
        )


class LibSQLSettings(LibSQLConnection):
    """
    Options of ``LibSQLStorage``; query parameters ``mastra_*`` of the URL set them, too.

    Example::

        LibSQLSettings(url="file:app.db", busy_timeout_ms=2000)
    """

    #: Put in front of every table name; with one, peers of the other language see nothing.
    prefix: str = Field(default="", pattern=PREFIX)
    #: Never create or change anything; refuse to open what has to be migrated first.
    disable_init: bool = False
    #: With ``disable_init``: open a database that lacks only what is ours alone, for those who
    #: look into it; writing may fail there.
    allow_unprepared: bool = False
    #: Larger snapshots are refused (snapshots.md G12).
    max_snapshot_bytes: int = Field(default=64 * 1024 * 1024, ge=1024)


class LibSQLPubSubSettings(LibSQLConnection, SqlBusOptions):
    """Options of ``LibSQLPubSub``; query parameters ``mastra_*`` of the URL set them, too."""

    url: str
    #: Put in front of every table name.
    prefix: str = Field(default="", pattern=PREFIX)
    #: Wake other processes by datagrams; without it they look every few milliseconds.
    doorbell: bool = True

    def lease_settings(self) -> LibSQLLeaseSettings:
        """The same database for leases."""
        names = LibSQLLeaseSettings.model_fields
        return LibSQLLeaseSettings(**{name: getattr(self, name) for name in names})


class LibSQLLeaseSettings(LibSQLConnection, SqlLeaseOptions):
    """Options of ``LibSQLLease``; query parameters ``mastra_*`` of the URL set them, too."""

    #: Put in front of every table name.
    prefix: str = Field(default="", pattern=PREFIX)
    #: Wake other processes by datagrams; without it they look every few milliseconds.
    doorbell: bool = True


def _target(url: str, driver: str | None, auth_token: SecretStr | None) -> Target:
    if url in _MEMORY:
        return Target(kind=TargetKind.MEMORY, address=":memory:")
    if url.startswith(("file:", ":memory:")):
        _refuse_parameters(url)
        return Target(kind=TargetKind.FILE, address=_file_path(url))
    parts = urlsplit(url)
    scheme = _REMOTE.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise InvalidUrlError(url=url, reason="it is no libSQL file or server")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    token = query.pop("authToken", None)
    if scheme == "libsql" and driver:
        scheme = driver
    elif scheme == "libsql":
        scheme = "ws" if query.get("tls") == "0" else "wss"
    query.pop("tls", None)
    if query:
        raise InvalidUrlError(url=url, reason=f"unknown parameter {min(query)!r}")
    kind = TargetKind.HTTP if scheme in {"http", "https"} else TargetKind.WEBSOCKET
    return Target(
        kind=kind,
        address=urlunsplit((scheme, parts.netloc, parts.path, "", "")),
        auth_token=auth_token or (SecretStr(token) if token else None),
    )


def _refuse_parameters(url: str) -> None:
    """A parameter that would be ignored (``mode=ro``) must not look as if it held."""
    query = url.partition("?")[2]
    if query:
        name = unquote(min(query.split("&")).partition("=")[0])
        raise InvalidUrlError(
            url=url,
            reason=f"unknown parameter {name!r}; options of a file are named mastra_<option>",
        )


def _file_path(url: str) -> str:
    path = unquote(url.removeprefix("file:").partition("?")[0])
    if path.startswith("//"):
        # file:///absolute and file://localhost/absolute; any other host isn't ours to read.
        host, _, rest = path[2:].partition("/")
        if host not in {"", "localhost"}:
            raise InvalidUrlError(url=url, reason=f"it names the host {host!r}")
        path = f"/{rest}"
    if not path or path.endswith("/"):
        raise InvalidUrlError(url=url, reason="it names no file")
    return str(Path(path).absolute())
