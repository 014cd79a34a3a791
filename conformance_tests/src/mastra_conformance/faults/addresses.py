"""Where the server of an adapter URL is, and the same URL through another port."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

__all__ = ("address_of", "as_asked", "through_port", "with_options")

#: Drivers of these schemes ask the server for its addresses and then go there directly,
#: unless they are told to stay where they are.
_STAY: Final = {"mongodb": {"directConnection": "true"}}
#: Parameters that send the driver elsewhere in spite of that.
_LEAVE_OUT: Final = frozenset({"replicaSet"})
_LOOPBACK: Final = "127.0.0.1"


def address_of(url: str) -> tuple[str, int]:
    """
    Host and port in an adapter URL.

    Raises:
        ValueError: There is no port in it, or there are several hosts.
    """
    parts = urlsplit(url)
    if "," in parts.netloc or parts.hostname is None or parts.port is None:
        raise ValueError(f"{parts.scheme}://… doesn't name one host and port.")
    return parts.hostname, parts.port


def through_port(url: str, port: int) -> str:
    """The URL with this port of the loopback interface instead of its own host and port."""
    parts = urlsplit(url)
    login, mark, _ = parts.netloc.rpartition("@")
    stay = _STAY.get(parts.scheme, {})
    query = parts.query
    if stay:
        kept = [
            (name, value)
            for name, value in parse_qsl(query, keep_blank_values=True)
            if name not in _LEAVE_OUT and name not in stay
        ]
        query = urlencode([*kept, *stay.items()])
    path = parts.path or ("/" if stay else "")
    return urlunsplit((parts.scheme, f"{login}{mark}{_LOOPBACK}:{port}", path, query, ""))


def as_asked(server_url: str, adapter_url: str) -> str:
    """The URL of a server of ours with the scheme and the options of the adapter under test."""
    server, adapter = urlsplit(server_url), urlsplit(adapter_url)
    ours = [part for part in adapter.query.split("&") if part.startswith("mastra_")]
    query = "&".join([*filter(None, [server.query]), *ours])
    return urlunsplit((adapter.scheme, server.netloc, server.path, query, ""))


def with_options(url: str, **options: object) -> str:
    """The URL with options of ours (``mastra_<name>``) added."""
    if not options:
        return url
    added = "&".join(f"mastra_{name}={value}" for name, value in options.items())
    return f"{url}{'&' if '?' in url else '?'}{added}"
