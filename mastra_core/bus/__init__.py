"""What all event transports have in common: one engine over small drivers."""

from __future__ import annotations

from mastra_core.bus.cache import Indexed, ServerCache
from mastra_core.bus.caching import CachingPubSub
from mastra_core.bus.driver import (
    Ack,
    BusDriver,
    Claim,
    Claims,
    Dead,
    DirectDriver,
    Entry,
    GiveBack,
    ListeningDriver,
    Nack,
    Outgoing,
    Page,
    Position,
    RememberingDriver,
    Settlement,
    Start,
    position_from_cursor,
)
from mastra_core.bus.engine import EventEngine
from mastra_core.bus.handlers import with_ack
from mastra_core.bus.held_lease import HeldLease, held_lease
from mastra_core.bus.no_lease import NoLease, lease_provider_of
from mastra_core.bus.options import BusOptions
from mastra_core.bus.settings import BusSettings

__all__ = (
    "Ack",
    "BusDriver",
    "BusOptions",
    "BusSettings",
    "CachingPubSub",
    "Claim",
    "Claims",
    "Dead",
    "DirectDriver",
    "Entry",
    "EventEngine",
    "GiveBack",
    "HeldLease",
    "Indexed",
    "ListeningDriver",
    "Nack",
    "NoLease",
    "Outgoing",
    "Page",
    "Position",
    "RememberingDriver",
    "ServerCache",
    "Settlement",
    "Start",
    "held_lease",
    "lease_provider_of",
    "position_from_cursor",
    "with_ack",
)
