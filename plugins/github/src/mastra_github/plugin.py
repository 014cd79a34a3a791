"""What mastra-github offers."""

from __future__ import annotations

from collections.abc import Iterable

from mastra_core.plugins import SignalProviderSpec, hookimpl

__all__ = ("MASTRA_PLUGIN_API", "mastra_signal_providers")

MASTRA_PLUGIN_API = (1, 0)


@hookimpl
def mastra_signal_providers() -> Iterable[SignalProviderSpec]:
    """The provider ``github``."""
    yield SignalProviderSpec(
        name="github",
        factory="mastra_github.provider:make_provider",
        settings="mastra_github.settings:GitHubSettings",
        extra="github",
        summary="GitHub webhooks as notifications of threads.",
    )
