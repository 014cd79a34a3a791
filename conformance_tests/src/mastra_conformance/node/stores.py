"""How Node opens the database that we have open."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

__all__ = ("node_domains", "node_store")

#: What Node keeps in Redis, its bus and leases included; elsewhere it keeps all of these.
_DOMAINS = frozenset({"memory", "workflows", "notifications"})
_IN_REDIS = frozenset({"memory", "workflows", "bus"})


def node_store(url: str) -> dict[str, Any]:
    """
    The order ``open`` of ``peer.mjs`` for a database of ours.

    Raises:
        LookupError: Node has no store for it.
    """
    scheme = url.partition(":")[0]
    if scheme == "file":
        return {"kind": "libsql", "url": url.partition("?")[0]}
    if scheme.startswith("libsql+"):
        return {"kind": "libsql", "url": _plain(url).removeprefix("libsql+")}
    if scheme in {"postgresql", "postgres"}:
        return {"kind": "pg", "url": _plain(url)}
    if scheme in {"mongodb", "mongodb+srv"}:
        return {"kind": "mongodb", "url": _plain(url), "dbName": urlsplit(url).path.strip("/")}
    if scheme in {"redis", "rediss"}:
        return {"kind": "redis", "url": _plain(url)}
    raise LookupError(f"The TypeScript system has no store for {scheme!r} URLs.")


def node_domains(url: str) -> frozenset[str]:
    """The domains that Node has on this backend; none where it has no store at all."""
    try:
        kind = node_store(url)["kind"]
    except LookupError:
        return frozenset()
    return _IN_REDIS if kind == "redis" else _DOMAINS


def _plain(url: str) -> str:
    """The URL without our own parameters."""
    parts = urlsplit(url)
    query = [(key, value) for key, value in parse_qsl(parts.query) if not key.startswith("mastra_")]
    return urlunsplit(parts._replace(query=urlencode(query)))
