"""What mastra-models offers. Imports no driver."""

from __future__ import annotations

from collections.abc import Iterable

from mastra_core.plugins import ModelProviderSpec, hookimpl
from mastra_models.router import provider_specs

__all__ = ("MASTRA_PLUGIN_API", "mastra_model_providers")

MASTRA_PLUGIN_API = (1, 0)


@hookimpl
def mastra_model_providers() -> Iterable[ModelProviderSpec]:
    """One descriptor for each provider name that may stand before the slash."""
    yield from provider_specs()
