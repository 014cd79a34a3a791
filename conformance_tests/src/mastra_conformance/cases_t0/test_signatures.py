"""An adapter's methods look as the contract says, down to the names of parameters."""

from __future__ import annotations

import pytest

from mastra_conformance.contract import signature_faults
from mastra_conformance.suite import Suite
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.contracts.pubsub import PubSub
from mastra_core.contracts.storage import (
    BackgroundTasksStorage,
    MemoryStorage,
    NotificationsStorage,
    SchedulesStorage,
    Storage,
    ThreadStateStorage,
    WorkflowsStorage,
)

__all__ = (
    "DOMAINS",
    "TestLeaseSignatures",
    "TestPubSubSignatures",
    "TestStorageSignatures",
)

DOMAINS = {
    "memory": MemoryStorage,
    "workflows": WorkflowsStorage,
    "notifications": NotificationsStorage,
    "thread_state": ThreadStateStorage,
    "background_tasks": BackgroundTasksStorage,
    "schedules": SchedulesStorage,
}


class TestStorageSignatures(Suite):
    """Composite and domains."""

    role = "storage"
    tier = 0

    async def test_the_composite_looks_like_the_contract(self, store: Storage) -> None:
        """Parameter names, kinds and defaults of the composite's methods are the contract's."""
        assert [] == signature_faults(Storage, store)

    @pytest.mark.parametrize("domain", DOMAINS)
    async def test_a_domain_looks_like_the_contract(self, store: Storage, domain: str) -> None:
        """The same for each declared domain; an undeclared one has its refusal test."""
        if domain in store.capabilities:
            assert [] == signature_faults(DOMAINS[domain], getattr(store, domain))


class TestPubSubSignatures(Suite):
    """The bus."""

    role = "pubsub"
    tier = 0

    async def test_the_bus_looks_like_the_contract(self, pubsub: PubSub) -> None:
        """Parameter names, kinds and defaults of the bus's methods are the contract's."""
        assert [] == signature_faults(PubSub, pubsub)


class TestLeaseSignatures(Suite):
    """The lease provider."""

    role = "lease"
    tier = 0

    async def test_the_provider_looks_like_the_contract(self, lease: LeaseProvider) -> None:
        """Parameter names, kinds and defaults of the provider's methods are the contract's."""
        assert [] == signature_faults(LeaseProvider, lease)
