"""What mastra-mongodb offers. Imports no driver."""

from __future__ import annotations

from collections.abc import Iterable

from mastra_core.plugins import StorageSpec, hookimpl
from mastra_mongodb.capabilities import STORAGE_CAPABILITIES

__all__ = (
    "MASTRA_PLUGIN_API",
    "mastra_storage_adapters",
)

MASTRA_PLUGIN_API = (1, 0)

_SCHEMES = ("mongodb", "mongodb+srv")
_SETTINGS = "mastra_mongodb.settings:MongoSettings"


@hookimpl
def mastra_storage_adapters() -> Iterable[StorageSpec]:
    """The store in a MongoDB database."""
    yield StorageSpec(
        name="mongodb",
        schemes=_SCHEMES,
        factory="mastra_mongodb.storage:MongoStorage",
        settings=_SETTINGS,
        capabilities=STORAGE_CAPABILITIES,
        extra="mongodb",
        summary="Everything in one MongoDB database, replica set or standalone.",
    )
