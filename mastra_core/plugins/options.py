"""Which plugins may be used, and how strict we are about broken ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mastra_core.errors import ConfigError

__all__ = ("PluginOptions", "flag_from_text", "names_from_text")

_NO_PREFERENCES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginOptions:
    """Settings of the section ``[plugins]``."""

    #: Names of the only entry points that may be used; None for all (``MASTRA_PLUGINS``).
    enable: frozenset[str] | None = None
    #: Names that are never imported (``MASTRA_PLUGINS_DISABLE``).
    disable: frozenset[str] = frozenset()
    #: Broken and incompatible plugins are errors (``MASTRA_PLUGINS_STRICT``).
    strict: bool = False
    #: Log every hook call (``MASTRA_PLUGINS_TRACE``).
    trace: bool = False
    #: Scheme or name → distribution or plugin that wins a conflict.
    prefer: Mapping[str, str] = field(default_factory=lambda: _NO_PREFERENCES)
    #: Seconds for each ``mastra_startup`` and ``mastra_shutdown``.
    start_deadline: float = 10.0
    stop_deadline: float = 10.0
    #: Seconds for all implementations of an authorisation hook together.
    permit_deadline: float = 2.0
    #: Consecutive failures after which an observer is switched off.
    observer_failures: int = 10

    def __post_init__(self) -> None:
        for name in ("start_deadline", "stop_deadline", "permit_deadline", "observer_failures"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"Plugin option {name!r} is {getattr(self, name)!r}, not > 0.")

    @classmethod
    def from_environ(
        cls, environ: Mapping[str, str], base: PluginOptions | None = None
    ) -> PluginOptions:
        """
        The options of ``base``, overridden by the environment; empty variables count as unset.

        Raises:
            ConfigError: A switch is neither on nor off.
        """
        options = base or cls()
        if names := names_from_text(environ.get("MASTRA_PLUGINS", "")):
            options = replace(options, enable=names)
        if names := names_from_text(environ.get("MASTRA_PLUGINS_DISABLE", "")):
            options = replace(options, disable=names)
        if text := environ.get("MASTRA_PLUGINS_STRICT", ""):
            options = replace(options, strict=flag_from_text("MASTRA_PLUGINS_STRICT", text))
        if text := environ.get("MASTRA_PLUGINS_TRACE", ""):
            options = replace(options, trace=flag_from_text("MASTRA_PLUGINS_TRACE", text))
        return options

    def blocked_by(self, names: Iterable[str], *, listed: bool = True) -> str | None:
        """
        What keeps a plugin out; None if nothing does.

        Args:
            names: Its name and its distribution.
            listed: Whether it must stand in ``enable`` if there is one.
        """
        names = frozenset(names)
        if names & self.disable:
            return "MASTRA_PLUGINS_DISABLE or [plugins] disable"
        if listed and self.enable is not None and not names & self.enable:
            return "MASTRA_PLUGINS or [plugins] enable, which don't name it"
        return None


def names_from_text(text: str) -> frozenset[str]:
    """The names of a list with commas."""
    return frozenset(name for part in text.split(",") if (name := part.strip()))


def flag_from_text(name: str, text: str) -> bool:
    """
    Read a switch.

    Raises:
        ConfigError: It is neither on nor off.
    """
    match text.strip().lower():
        case "1" | "true" | "yes" | "on":
            return True
        case "0" | "false" | "no" | "off" | "":
            return False
        case _:
            raise ConfigError(f"{name} is {text!r}; write 1 or 0.")
