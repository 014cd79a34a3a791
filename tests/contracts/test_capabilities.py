"""Names of capabilities and what they imply."""

from __future__ import annotations

from dataclasses import fields

from mastra_core.contracts.capabilities import (
    LEASE_CAPABILITIES,
    PUBSUB_CAPABILITIES,
    STORAGE_CAPABILITIES,
    STORAGE_DOMAINS,
    inconsistencies,
    lease_capability_names,
    pubsub_capability_names,
    with_implied,
)
from mastra_core.contracts.lease import LeaseCapabilities
from mastra_core.contracts.pubsub import PubSubCapabilities

TABLES = (STORAGE_CAPABILITIES, PUBSUB_CAPABILITIES, LEASE_CAPABILITIES)


def test_everything_implied_is_known_in_the_same_role() -> None:
    """No table points outside of itself."""
    for table in TABLES:
        for name, capability in table.items():
            assert name == capability.name
            assert set(capability.implies) <= table.keys()


def test_every_detail_of_a_domain_implies_the_domain() -> None:
    """``memory.copy_thread`` without ``memory`` makes no sense."""
    details = [name for name in STORAGE_CAPABILITIES if name.partition(".")[0] in STORAGE_DOMAINS]

    assert set(STORAGE_DOMAINS) <= set(details)
    for name in details:
        assert (
            name in STORAGE_DOMAINS or name.partition(".")[0] in STORAGE_CAPABILITIES[name].implies
        )


def test_the_switches_of_the_records_are_exactly_the_names() -> None:
    """A new member of a record needs its row here."""
    pubsub = {f"pubsub.{item.name}" for item in fields(PubSubCapabilities) if item.type == "bool"}
    lease = {f"lease.{item.name}" for item in fields(LeaseCapabilities) if item.type == "bool"}

    assert pubsub == PUBSUB_CAPABILITIES.keys()
    assert lease == LEASE_CAPABILITIES.keys()


def test_records_read_as_names() -> None:
    """Only what is true; numbers aren't names."""
    assert frozenset({"lease.cross_process", "lease.fencing"}) == lease_capability_names(
        LeaseCapabilities(cross_process=True, atomic_transfer=False, watch=False)
    )
    assert "pubsub.durable" in pubsub_capability_names(PubSubCapabilities(durable=True))
    assert "pubsub.durable" not in pubsub_capability_names(PubSubCapabilities())


def test_default_records_are_consistent() -> None:
    """An adapter may start from them."""
    assert () == inconsistencies(pubsub_capability_names(PubSubCapabilities()))
    assert () == inconsistencies(lease_capability_names(LeaseCapabilities()))


def test_faults_are_sentences() -> None:
    """Unknown names first, then missing ones, each sorted."""
    assert (
        "'fly' is not a known capability.",
        "'memory.copy_thread' implies 'memory', which is not declared.",
    ) == inconsistencies(["memory.copy_thread", "fly"])


def test_implied_names_are_added() -> None:
    """Also for names that nobody knows, which imply nothing."""
    assert {"pubsub.cross_host", "pubsub.cross_process", "x"} == with_implied(
        ["pubsub.cross_host", "x"]
    )
    assert {"memory", "memory.copy_thread"} == with_implied(["memory", "memory.copy_thread"])
