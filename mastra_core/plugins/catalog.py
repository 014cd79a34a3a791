"""The adapters and plugins that we know by name, whether they are installed or not.

Thanks to it a URL of a known scheme needs the import of one entry point only, and an
absent one is answered with the command that installs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mastra_core.plugins.specs import Role

__all__ = (
    "CATALOG",
    "CATALOG_PLUGINS",
    "KnownAdapter",
    "closest_scheme",
    "known_adapter",
    "known_schemes",
    "scheme_prefix",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAdapter:
    """An adapter of ours: what it is called and which URLs it answers to."""

    name: str
    distribution: str
    #: Name of the entry point; None for what the core contains.
    entry_point: str | None
    #: ``mastra-core[<extra>]`` installs it; None for what the core contains.
    extra: str | None
    roles: tuple[Role, ...]
    #: Schemes that are shown to people.
    schemes: tuple[str, ...]
    #: Other spellings, each for one of ``schemes``.
    aliases: Mapping[str, str]


_ALL_ROLES: Final[tuple[Role, ...]] = ("storage", "pubsub", "lease")


def _adapter(
    name: str,
    *schemes: str,
    extra: str | None,
    roles: tuple[Role, ...] = _ALL_ROLES,
    **aliases: str,
) -> KnownAdapter:
    return KnownAdapter(
        name=name,
        distribution=f"mastra-{name.replace('_', '-')}" if extra else "mastra-core",
        entry_point=name if extra else None,
        extra=extra,
        roles=roles,
        schemes=schemes,
        aliases=MappingProxyType({k.replace("__", "+"): v for k, v in aliases.items()}),
    )


#: In the order of the table of design 4.4.
CATALOG: Final[tuple[KnownAdapter, ...]] = (
    _adapter("memory", "memory", extra=None),
    _adapter("libsql", "file", "libsql", extra="libsql"),
    _adapter("postgres", "postgresql", extra="postgres", postgres="postgresql"),
    _adapter("mongodb", "mongodb", extra="mongodb", mongodb__srv="mongodb"),
    _adapter("redis", "redis", extra="redis", rediss="redis", redis__unix="redis"),
    _adapter("unix_socket", "unix", extra="unix", roles=("pubsub", "lease")),
)

#: Entry points of ours: name → distribution. None of them claims a scheme of another one.
CATALOG_PLUGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{item.entry_point: item.distribution for item in CATALOG if item.entry_point},
        "server": "mastra-server",
        "models": "mastra-models",
        "processors": "mastra-processors",
        "github": "mastra-github",
        "cli": "mastra-cli",
        "otel": "mastra-otel",
        "cross_agent": "mastra-cross-agent",
    }
)

#: Schemes whose URLs have no ``//``.
_OPAQUE_SCHEMES: Final = frozenset({"memory", "file", "unix"})


def known_adapter(scheme: str) -> KnownAdapter | None:
    """The adapter of ours that answers to this scheme; None if there is none."""
    for item in CATALOG:
        if scheme in item.schemes or scheme in item.aliases:
            return item
    return None


def known_schemes(role: Role, more: Iterable[str] = ()) -> tuple[str, ...]:
    """Schemes to show for a role, sorted: ours and those of active plugins."""
    ours = {scheme for item in CATALOG if role in item.roles for scheme in item.schemes}
    aliases = {alias for item in CATALOG for alias in item.aliases}
    return tuple(sorted(ours | (set(more) - aliases)))


def closest_scheme(scheme: str, role: Role, more: Iterable[str] = ()) -> str | None:
    """The scheme that was probably meant; None if nothing looks like it."""
    canonical = {name: name for name in known_schemes(role, more)}
    for item in CATALOG:
        canonical.update(item.aliases if role in item.roles else {})
    found = get_close_matches(scheme.lower(), canonical, n=1, cutoff=0.6)
    return canonical[found[0]] if found else None


def scheme_prefix(scheme: str) -> str:
    """How URLs of a scheme begin: ``file:`` but ``postgresql://``."""
    return f"{scheme}:" if scheme in _OPAQUE_SCHEMES else f"{scheme}://"
