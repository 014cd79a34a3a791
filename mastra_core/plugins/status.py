"""What became of each plugin that was found, for people (design 4.7)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

__all__ = ("PluginOrigin", "PluginState", "PluginStatus")

#: ``blocked`` plugins were never imported; all but ``active`` and ``conflict`` are off.
PluginState: TypeAlias = Literal["active", "blocked", "broken", "incompatible", "conflict"]

#: Given to ``Mastra(plugins=…)``, part of the core, or found by entry point.
PluginOrigin: TypeAlias = Literal["instance", "builtin", "entry_point"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginStatus:
    """One row of the list of plugins."""

    name: str
    #: None for objects that were handed in.
    distribution: str | None
    version: str | None
    status: PluginState
    #: Why it isn't simply active; a note for an active one; empty if there is nothing to say.
    reason: str
    hooks: tuple[str, ...]
    schemes: tuple[str, ...]
    summary: str
    origin: PluginOrigin

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, for ``plugins --json``."""
        return {**asdict(self), "hooks": list(self.hooks), "schemes": list(self.schemes)}
