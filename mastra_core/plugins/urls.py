"""URLs that choose an adapter: scheme, driver, and options of ours (design 4.4).

Everything but the scheme and ``mastra_*`` query parameters belongs to the driver and is
kept character by character; nothing is decoded and written anew.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote_plus

from mastra_core.base.redact import redact_url
from mastra_core.errors import InvalidUrlError
from mastra_core.plugins.catalog import CATALOG, scheme_prefix

__all__ = ("OPTION_PREFIX", "AdapterUrl", "parse_adapter_url", "split_options")

#: Query parameters that start with it are ours.
OPTION_PREFIX: Final = "mastra_"

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9.+_-]*):")
_WINDOWS_PATH: Final = re.compile(r"[A-Za-z]:[\\/]")
_AUTHORITY: Final = re.compile(r"//(?:[^/?#]*@)?([^/?#]*)")
_PORT: Final = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?")
_LAST_PORT: Final = 65_535
_WEB_SCHEMES: Final = frozenset({"http", "https", "ws", "wss"})
_KNOWN_SCHEMES: Final = frozenset(
    scheme for item in CATALOG for scheme in (*item.schemes, *item.aliases)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterUrl:
    """A URL, taken apart as far as the choice of an adapter needs it."""

    #: As it was given; contains secrets.
    raw: str
    #: Lower case, without ``+driver``.
    scheme: str
    #: The part after ``+``; None if there is none.
    driver: str | None
    #: Everything after ``scheme:``, without the query parameters of ours.
    rest: str
    #: Query parameters of ours without ``mastra_``, decoded.
    options: Mapping[str, str]

    @property
    def driver_url(self) -> str:
        """What the driver gets: no ``+driver``, no parameters of ours."""
        if self.rest == ":memory:" and self.raw.startswith(":memory:"):
            return self.rest
        return f"{self.scheme}:{self.rest}"

    @property
    def path(self) -> str:
        """What follows ``scheme:`` or ``scheme://``, without query and fragment."""
        text = self.rest.partition("#")[0].partition("?")[0]
        return text.removeprefix("//")

    @property
    def is_volatile(self) -> bool:
        """True if nothing that is stored there survives this process."""
        return self.scheme == "memory" or (self.scheme == "file" and self.path == ":memory:")

    @property
    def redacted(self) -> str:
        """The URL for messages and logs."""
        return redact_url(self.raw)

    @property
    def prefix(self) -> str:
        """How the URL begins, for messages: ``file:`` or ``postgresql://``."""
        return scheme_prefix(self.scheme)

    def __str__(self) -> str:
        return self.redacted

    def __repr__(self) -> str:
        return f"AdapterUrl({self.redacted!r})"


def parse_adapter_url(text: str, *, schemes: Collection[str] = ()) -> AdapterUrl:
    """
    Take a URL apart.

    Args:
        text: What the user wrote.
        schemes: Schemes of active plugins beside the known ones. A scheme with ``+`` that
            stands there or in the catalogue is taken as a whole (``mongodb+srv``).

    Raises:
        InvalidUrlError: It has no scheme, a web scheme, an option twice, or a port that is
            none.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidUrlError(url=str(text), reason="it is empty")
    if text.startswith(":memory:"):
        rest, options = split_options(text)
        return AdapterUrl(
            raw=text, scheme="file", driver=None, rest=rest, options=MappingProxyType(options)
        )
    scheme = _scheme_of(text)
    rest, options = split_options(text)
    rest = rest[len(scheme) + 1 :]
    scheme = scheme.lower()
    driver: str | None = None
    if "+" in scheme and scheme not in _KNOWN_SCHEMES and scheme not in schemes:
        scheme, _, driver = scheme.partition("+")
    if scheme in _WEB_SCHEMES:
        raise _web_url(text, scheme)
    if scheme in _KNOWN_SCHEMES and scheme_prefix(scheme).endswith("//"):
        _check_ports(text, rest)
    return AdapterUrl(
        raw=text, scheme=scheme, driver=driver or None, rest=rest, options=MappingProxyType(options)
    )


def _scheme_of(text: str) -> str:
    found = _SCHEME.match(text)
    if found is None or _WINDOWS_PATH.match(text):
        hint = f"For a file write file:{text}" if "://" not in text else None
        raise InvalidUrlError(url=text, reason="it doesn't start with a scheme", hint=hint)
    return found[1]


def _web_url(text: str, scheme: str) -> InvalidUrlError:
    meant = f"libsql+{scheme}://"
    return InvalidUrlError(
        url=text,
        reason=f"'{scheme}://' doesn't say which adapter is meant, unlike '{meant}'",
        hint=f"For a libSQL server write {meant}…",
    )


def _check_ports(text: str, rest: str) -> None:
    """Drivers that get a wrong one say so late, and each in its own way."""
    authority = _AUTHORITY.match(rest)
    if authority is None:
        return
    for host in authority[1].split(","):
        found = _PORT.fullmatch(host)
        if found is None or int(found[1] or 0) > _LAST_PORT:
            # An @ further on: what looks like a port may be the begin of a password.
            is_odd = "@" in rest[authority.end() :]
            raise InvalidUrlError(
                url=f"{text.partition('//')[0]}//…" if is_odd else text,
                reason=f"its port is no number up to {_LAST_PORT}",
                hint="In a user name or password write @ : / ? # as %40 %3A %2F %3F %23.",
            )


def split_options(url: str) -> tuple[str, dict[str, str]]:
    """
    Take the parameters of ours out of a URL's query, and leave the rest as it is written.

    Raises:
        InvalidUrlError: It has an option twice.
    """
    body, hash_mark, fragment = url.partition("#")
    path, _, query = body.partition("?")
    options: dict[str, str] = {}
    kept: list[str] = []
    for item in query.split("&") if query else ():
        name, _, value = item.partition("=")
        name = unquote_plus(name)
        if not name.startswith(OPTION_PREFIX):
            kept.append(item)
            continue
        key = name.removeprefix(OPTION_PREFIX)
        if key in options:
            raise InvalidUrlError(url=url, reason=f"it has {name!r} twice")
        options[key] = unquote_plus(value)
    if options:
        query = "&".join(kept)
        body = f"{path}?{query}" if query else path
    return body + hash_mark + fragment, options
