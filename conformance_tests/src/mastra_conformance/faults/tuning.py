"""Options of an adapter that a fault test sets: short timeouts, so that nothing takes minutes."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from pydantic import BaseModel

from mastra_core.plugins.specs import AdapterSpec

__all__ = ("ANSWER_MS", "knows_option", "quick_options")

ANSWER_MS: Final = 2_000
"""What every option called ``…_timeout_ms`` is set to."""

#: How long closing waits for handlers isn't a matter of the server.
_LEFT_ALONE: Final = frozenset({"drain_timeout_ms"})


def quick_options(spec: AdapterSpec) -> dict[str, Any]:
    """All timeouts of an adapter's role, set to ``ANSWER_MS``."""
    return {
        name: ANSWER_MS
        for name in _options_of(spec)
        if name.endswith("_timeout_ms") and name not in _LEFT_ALONE
    }


def knows_option(spec: AdapterSpec, name: str) -> bool:
    """Whether the adapter has an option of this name."""
    return name in _options_of(spec)


def _options_of(spec: AdapterSpec) -> tuple[str, ...]:
    settings = getattr(spec, "settings", None)
    if isinstance(settings, str):
        module, _, name = settings.partition(":")
        settings = getattr(import_module(module), name)
    if not (isinstance(settings, type) and issubclass(settings, BaseModel)):
        return ()
    return tuple(settings.model_fields)
