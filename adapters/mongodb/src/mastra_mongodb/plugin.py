"""What mastra-mongodb offers. Imports no driver."""

from __future__ import annotations

from collections.abc import Iterable

from mastra_core.plugins import LeaseSpec, PubSubSpec, StorageSpec, hookimpl
from mastra_mongodb.capabilities import (
    LEASE_CAPABILITIES,
    PUBSUB_CAPABILITIES,
    STORAGE_CAPABILITIES,
)

__all__ = (
    "MASTRA_PLUGIN_API",
    "mastra_lease_adapters",
    "mastra_pubsub_adapters",
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


@hookimpl
def mastra_pubsub_adapters() -> Iterable[PubSubSpec]:
    """The bus in a MongoDB database."""
    yield PubSubSpec(
        name="mongodb",
        schemes=_SCHEMES,
        factory="mastra_mongodb.pubsub:MongoPubSub",
        settings=_SETTINGS,
        capabilities=PUBSUB_CAPABILITIES,
        extra="mongodb",
        summary="A durable bus in MongoDB; change streams wake its readers.",
    )


@hookimpl
def mastra_lease_adapters() -> Iterable[LeaseSpec]:
    """Leases in a MongoDB database."""
    yield LeaseSpec(
        name="mongodb",
        schemes=_SCHEMES,
        factory="mastra_mongodb.lease:MongoLease",
        settings=_SETTINGS,
        capabilities=LEASE_CAPABILITIES,
        extra="mongodb",
        summary="Leases by the clock of the MongoDB server, with fences.",
    )
