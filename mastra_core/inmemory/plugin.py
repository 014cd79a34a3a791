"""What the scheme ``memory`` offers: a store, a bus and leases in this process's memory."""

from __future__ import annotations

from collections.abc import Iterable

from mastra_core.inmemory.capabilities import (
    LEASE_CAPABILITIES,
    PUBSUB_CAPABILITIES,
    STORAGE_CAPABILITIES,
)
from mastra_core.plugins import LeaseSpec, PubSubSpec, StorageSpec, hookimpl

__all__ = ("mastra_lease_adapters", "mastra_pubsub_adapters", "mastra_storage_adapters")

MASTRA_PLUGIN_API = (1, 0)


@hookimpl
def mastra_storage_adapters() -> Iterable[StorageSpec]:
    """The reference store."""
    yield StorageSpec(
        name="memory",
        schemes=("memory",),
        factory="mastra_core.inmemory.storage:InMemoryStorage",
        settings="mastra_core.inmemory.storage.settings:InMemoryStorageSettings",
        capabilities=STORAGE_CAPABILITIES,
        summary="Everything in this process's memory; nothing survives it.",
    )


@hookimpl
def mastra_pubsub_adapters() -> Iterable[PubSubSpec]:
    """The in-process bus."""
    yield PubSubSpec(
        name="memory",
        schemes=("memory",),
        factory="mastra_core.inmemory.pubsub:InMemoryPubSub",
        settings="mastra_core.inmemory.pubsub:InMemoryPubSubSettings",
        capabilities=PUBSUB_CAPABILITIES,
        summary="Events between the tasks of this process.",
    )


@hookimpl
def mastra_lease_adapters() -> Iterable[LeaseSpec]:
    """Leases that only this process sees."""
    yield LeaseSpec(
        name="memory",
        schemes=("memory",),
        factory="mastra_core.inmemory.lease:InMemoryLease",
        settings="mastra_core.inmemory.lease:InMemoryLeaseSettings",
        capabilities=LEASE_CAPABILITIES,
        summary="Leases between the tasks of this process.",
    )
