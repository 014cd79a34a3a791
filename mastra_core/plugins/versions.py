"""Versions of the plugin API, and which plugins fit this host (design 4.6)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

__all__ = (
    "API",
    "PROCESSOR_API",
    "PUBSUB_API",
    "STORAGE_API",
    "ApiVersion",
    "declared_api",
    "host_version",
    "unmet_api",
)

ApiVersion: TypeAlias = tuple[int, int]

#: The hooks and descriptors of this host: ``(major, minor)``.
API: Final[ApiVersion] = (1, 0)
#: Raised only when processors written for the last one stop working.
PROCESSOR_API: Final = 1
STORAGE_API: Final = 1
PUBSUB_API: Final = 1

_SUB_APIS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "MASTRA_PROCESSOR_API": PROCESSOR_API,
        "MASTRA_STORAGE_API": STORAGE_API,
        "MASTRA_PUBSUB_API": PUBSUB_API,
    }
)


def declared_api(plugin: object) -> ApiVersion | None:
    """
    The API that a plugin was written for; None if it doesn't say.

    Raises:
        TypeError: ``MASTRA_PLUGIN_API`` is not a pair of integers.
    """
    value = getattr(plugin, "MASTRA_PLUGIN_API", None)
    if value is None:
        return None
    match value:
        case (int(major), int(minor)):
            return (major, minor)
        case _:
            raise TypeError(f"MASTRA_PLUGIN_API is {value!r}, not a pair such as (1, 0)")


def unmet_api(plugin: object) -> tuple[str, str, str] | None:
    """
    What the plugin needs and this host doesn't have.

    Returns:
        The kind of API, the version that is needed and the one that is offered; None if
        the plugin fits.
    """
    needed = declared_api(plugin) or (1, 0)
    if needed[0] != API[0] or needed[1] > API[1]:
        return "plugin API", _dotted(needed), _dotted(API)
    for attribute, offered in _SUB_APIS.items():
        value = getattr(plugin, attribute, 1)
        if value != offered:
            kind = attribute.removeprefix("MASTRA_").removesuffix("_API").lower()
            return f"{kind} API", str(value), str(offered)
    return None


def host_version() -> str:
    """The version of mastra-core, for messages."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("mastra-core")
    except PackageNotFoundError:  # pragma: no cover  # a copy of the sources on the path
        return "(not installed)"


def _dotted(version: ApiVersion) -> str:
    return ".".join(map(str, version))
