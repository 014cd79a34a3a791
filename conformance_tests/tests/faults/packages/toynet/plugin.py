"""What the toy server offers, and how the suite may start it."""

from __future__ import annotations

from collections.abc import Iterable

from mastra_core.contracts.lease import LeaseCapabilities
from mastra_core.contracts.pubsub import PubSubCapabilities
from mastra_core.inmemory.capabilities import MAX_EVENT_BYTES, STORAGE_CAPABILITIES
from mastra_core.plugins import LeaseSpec, PubSubSpec, StorageSpec, hookimpl

MASTRA_PLUGIN_API = (1, 0)

PUBSUB = PubSubCapabilities(
    durable=True,
    cross_process=True,
    max_event_bytes=MAX_EVENT_BYTES,
    leases=True,
    fencing=True,
    lease_watch=True,
)
LEASES = LeaseCapabilities(cross_process=True)

STORES = ("Toy", "Raw", "Patient", "Torn", "Jammed", "Stubborn")
BUSES = ("Toy", "Skipping", "Doubling", "Dropping", "Hasty", "Unfenced")


def _schemes(names: Iterable[str]) -> dict[str, str]:
    return {"toynet" if name == "Toy" else f"toynet-{name.lower()}": name for name in names}


@hookimpl
def mastra_storage_adapters() -> list[StorageSpec]:
    """One per fault."""
    return [
        StorageSpec(
            name="toynet",
            schemes=(scheme,),
            factory=f"toynet.adapter:{name}Storage",
            settings="toynet.adapter:ToyOptions",
            capabilities=STORAGE_CAPABILITIES,
            summary="A store behind TCP.",
        )
        for scheme, name in _schemes(STORES).items()
    ]


@hookimpl
def mastra_pubsub_adapters() -> list[PubSubSpec]:
    """One per fault."""
    return [
        PubSubSpec(
            name="toynet",
            schemes=(scheme,),
            factory=f"toynet.adapter:{name}Bus",
            settings="toynet.adapter:ToyBusOptions",
            capabilities=PUBSUB,
            summary="A bus behind TCP.",
        )
        for scheme, name in _schemes(BUSES).items()
    ]


@hookimpl
def mastra_lease_adapters() -> list[LeaseSpec]:
    """Leases."""
    return [
        LeaseSpec(
            name="toynet",
            schemes=tuple(_schemes(BUSES)),
            factory="toynet.adapter:ToyLease",
            settings="toynet.adapter:ToyOptions",
            capabilities=LEASES,
            summary="Leases behind TCP.",
        )
    ]
