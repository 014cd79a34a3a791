"""The exporters of spans that are used, by name."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mastra_core.errors import ConfigError, MastraError
from mastra_core.plugins.making import make_with_options

if TYPE_CHECKING:
    from mastra_core.contracts.exporter import SpanExporter
    from mastra_core.plugins.context import AdapterContext
    from mastra_core.plugins.registry import Registry

__all__ = ("make_exporters",)

logger = logging.getLogger(__name__)


def make_exporters(
    registry: Registry, options: Mapping[str, Mapping[str, Any]], context: AdapterContext
) -> dict[str, SpanExporter]:
    """
    Every exporter that an installed plugin offers; opens none.

    One that can't be made is left out with a warning: an application doesn't fail because
    nobody measures it. Unless it has options, for then somebody counts on it.

    Args:
        registry: The plugins.
        options: Options by the exporter's name.
        context: What factories get.

    Raises:
        ConfigError: Options for an exporter that nobody offers, or that don't fit.
        PluginError: An exporter with options can't be made.
    """
    offers = {offer.spec.name: offer for offer in registry.span_exporters()}
    for name in options:
        if name not in offers:
            known = ", ".join(sorted(offers)) or "none"
            raise ConfigError(
                f"No plugin offers the span exporter {name!r}. Known: {known}.",
                details={"exporter": name},
            )
    made: dict[str, SpanExporter] = {}
    for name, offer in offers.items():
        try:
            made[name] = make_with_options(offer, options.get(name, {}), context)
        except MastraError as exc:
            if name in options:
                raise
            logger.warning(
                "span exporter left out", extra={"exporter": name, "reason": exc.message}
            )
    return made
