"""What mastra-jsonfile offers. Imports nothing that costs time."""

from __future__ import annotations

from collections.abc import Iterable

from mastra_core.plugins import StorageSpec, hookimpl
from mastra_jsonfile.capabilities import CAPABILITIES

__all__ = ("MASTRA_PLUGIN_API", "mastra_storage_adapters")

MASTRA_PLUGIN_API = (1, 0)


@hookimpl
def mastra_storage_adapters() -> Iterable[StorageSpec]:
    """The store in a file."""
    yield StorageSpec(
        name="jsonfile",
        schemes=("jsonfile",),
        factory="mastra_jsonfile.storage:JsonFileStorage",
        settings="mastra_jsonfile.settings:JsonFileSettings",
        capabilities=CAPABILITIES,
        summary="Threads, runs and the inbox in one JSON file.",
    )
