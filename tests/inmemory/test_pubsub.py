"""What is special about the bus in memory: sharing by name, bounds, copies."""

from __future__ import annotations

import enum
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from mastra_core.bus import BusDriver, DirectDriver, Outgoing
from mastra_core.errors import PubSubError, WireEncodeError
from mastra_core.inmemory.hub import Hub, HubLimits
from mastra_core.inmemory.payload import copy_payload
from mastra_core.inmemory.pubsub import InMemoryPubSub, InMemoryPubSubSettings
from mastra_core.inmemory.topic_log import LogLimits, TopicLog
from mastra_core.plugins import AdapterContext, SharedResources
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.wire.events import Event

pytestmark = pytest.mark.anyio


def event(data: Any) -> Event:
    """An event of which only the data matters."""
    return Event(type="t", run_id="r", data=data)


def log_of(count: int, limits: LogLimits) -> TopicLog:
    """A log with so many events of 10 bytes."""
    log = TopicLog("t", limits)
    for number in range(count):
        log.append(Outgoing(event(number), event(number), 10), 0)
    return log


async def test_instances_of_one_name_share_topics_and_leases() -> None:
    """And those of another name, or of another context, don't."""
    resources = SharedResources()
    mine = AdapterContext(resources=resources)

    def bus(name: str, context: AdapterContext) -> InMemoryPubSub:
        return InMemoryPubSub(InMemoryPubSubSettings(url=f"memory:{name}"), context)

    async with (
        bus("a", mine) as one,
        bus("a", mine) as two,
        bus("b", mine) as other_name,
        bus("a", AdapterContext()) as other_context,
    ):
        await one.publish("t", event(1))
        await one.get_lease_provider().acquire_lease("k", "run", 1_000)
        assert [1] == [seen.data for seen in await two.get_history("t")]
        assert "run" == await two.get_lease_provider().get_lease_owner("k")
        for apart in (other_name, other_context):
            assert [] == await apart.get_history("t")
            assert await apart.get_lease_provider().get_lease_owner("k") is None
    assert 0 == len(resources)


async def test_the_driver_is_direct() -> None:
    """It fulfils the protocol of drivers, and the short-cut of those in this process."""
    driver = InMemoryPubSub()._driver
    assert isinstance(driver, BusDriver)
    assert isinstance(driver, DirectDriver)


def test_a_log_is_bounded_by_number_and_bytes() -> None:
    """The oldest go first; positions stay."""
    by_number = log_of(1_000, LogLimits(max_entries=100))
    by_bytes = log_of(1_000, LogLimits(max_bytes=500))

    for log, most in ((by_number, 100), (by_bytes, 50)):
        kept = log.read_after(log.locate("earliest"), 10_000).entries
        assert 1 <= len(kept) <= most
        assert 999 == kept[-1].event.index
        assert log.bytes == 10 * len(kept)


def test_a_live_group_keeps_what_it_needs_up_to_a_limit() -> None:
    """Then publishing is refused instead of losing events silently."""
    log = TopicLog("t", LogLimits(max_entries=10, max_unsettled=50))
    log.join("g", "c", "earliest")
    for number in range(50):
        log.append(Outgoing(event(number), event(number), 10), 0)
    with pytest.raises(PubSubError, match="50 events"):
        log.append(Outgoing(event("more"), event("more"), 10), 0)
    claims = log.claim("g", "c", limit=100, visible_at=1, now=0, ordered=False).claims
    assert list(range(50)) == [claim.event.data for claim in claims]

    log.leave("g", "c", 0)
    log.append(Outgoing(event("next"), event("next"), 10), 0)
    assert len(log.read_after((1, 0), 1_000).entries) <= 10


def test_a_hub_forgets_topics_that_nobody_uses(clock: FakeClock) -> None:
    """By number and by time; those that are watched or have consumers stay."""
    hub = Hub(clock, HubLimits(max_topics=5, idle_ttl_ms=10_000))
    hub.listen().watched = frozenset({"watched"})
    hub.topic("watched", 0)
    hub.topic("worked", 0).join("g", "c", "earliest")
    for number in range(20):
        hub.topic(f"t{number}", number)
    assert 5 == len(hub)
    hub.topic("late", 60_000)
    assert 3 == len(hub)
    assert {"watched", "worked", "late"} == set(hub._topics)


class Colour(enum.StrEnum):
    RED = "red"


class Model(BaseModel):
    some_name: int = 1
    other: str | None = None


@pytest.mark.parametrize(
    ("value", "copy"),
    [
        ({"a": [1, 2.5, None, True, "x"]}, {"a": [1, 2.5, None, True, "x"]}),
        ((1, (2,)), [1, [2]]),
        (Colour.RED, "red"),
        (Model(some_name=2), {"some_name": 2}),
        (b"ab", b"ab"),
        (bytearray(b"ab"), b"ab"),
        (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
        (2**70, 2**70),
    ],
)
def test_payloads_are_copied_as_a_transport_would(value: Any, copy: Any) -> None:
    """Lists for tuples, members for models; times and bytes stay what they are."""
    copied, size = copy_payload(value, None)
    assert copy == copied
    assert size > 0


def test_errors_are_copied_as_plain_values() -> None:
    """Name and message."""
    copied, _ = copy_payload({"error": ValueError("no")}, None)
    assert {"name": "ValueError", "message": "no"} == copied["error"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_plain_values_are_equal_and_apart(value: Any) -> None:
    """The copy equals the value and shares no container with it."""
    copied, _ = copy_payload(value, None)
    assert value == copied
    if isinstance(value, list | dict):
        assert copied is not value


@pytest.mark.parametrize("value", [object(), {1: 2}, {1, 2}, datetime(2026, 1, 1), print])  # noqa: DTZ001
def test_what_has_no_form_is_refused(value: Any) -> None:
    """As on every other transport."""
    with pytest.raises(WireEncodeError):
        copy_payload(value, None)


def test_sizes_are_exact_where_they_decide() -> None:
    """Bytes of UTF-8, with escapes."""
    assert 13 == copy_payload('a"ü\x01', 1)[1]
    assert 3 * 400 + 2 == copy_payload("€" * 400, 1_000)[1]
