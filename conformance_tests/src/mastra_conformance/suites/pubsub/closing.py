"""Flushing and closing (pubsub_and_lease.md P14, P15)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import pytest

from mastra_conformance import Suite, case, requires
from mastra_conformance.fixtures import OpenPubSub
from mastra_conformance.opening import Opener
from mastra_conformance.suites.pubsub.support import (
    Elapse,
    Recorder,
    eventually,
    make_event,
    open_bus,
    publish_all,
)
from mastra_core.contracts.pubsub import PubSub
from mastra_core.errors import FlushTimeoutError, PubSubClosedError
from mastra_core.wire.events import Event

__all__ = ("ClosingSuite",)


class ClosingSuite(Suite):
    """The end of a bus, and its rests."""

    role: ClassVar[str] = "pubsub"

    @case("pubsub_and_lease", 69)
    async def test_closing_waits_for_handlers_then_ends(
        self, opener: Opener, elapse: Elapse
    ) -> None:
        """One that ends in time ends by itself, one that hangs is cancelled; later calls raise."""
        ended: list[Any] = []
        go_on = asyncio.Event()

        async def work(event: Event) -> None:
            try:
                if event.data == "hangs":
                    await asyncio.Event().wait()
                await go_on.wait()
                ended.append(event.data)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        async with open_bus(opener, drain_timeout_ms=200) as bus:
            seen = Recorder()
            await bus.subscribe("t", work)
            await bus.subscribe("t", seen)
            await publish_all(bus, "t", ["ends", "hangs"])
            await seen.until(2)

            closing = asyncio.create_task(bus.aclose())
            await asyncio.sleep(0)
            go_on.set()
            await eventually(lambda: ended == ["ends"])
            assert not closing.done()
            await eventually(closing.done, elapse)
            await closing

            assert ["ends", "cancelled"] == ended
            await bus.aclose()
            calls: list[Callable[[], Awaitable[None]]] = [
                lambda: bus.publish("t", make_event(1)),
                lambda: bus.subscribe("t", seen),
                lambda: bus.unsubscribe("t", seen),
                bus.flush,
            ]
            for call in calls:
                with pytest.raises(PubSubClosedError):
                    await call()

    @requires("pubsub.groups")
    @case("pubsub_and_lease", 70)
    async def test_flush_never_waits_for_redeliveries(self, opener: Opener, elapse: Elapse) -> None:
        """A handler that nacks for ever doesn't hold it up; one that hangs runs into the timeout."""

        async def act(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            if event.data == "hangs":
                await asyncio.Event().wait()
            await nack()

        async with open_bus(opener, max_delivery_attempts="inf", drain_timeout_ms=50) as bus:
            seen = Recorder(act)
            await bus.subscribe("t", seen, group="g")
            await bus.publish("t", make_event("nacks"))
            await seen.until(1)
            await bus.flush(timeout_ms=5_000)

            await bus.publish("t", make_event("hangs"))
            await eventually(lambda: "hangs" in seen.data, elapse)
            flushing = asyncio.create_task(bus.flush(timeout_ms=300))
            await eventually(flushing.done, elapse)
            with pytest.raises(FlushTimeoutError):
                await flushing

    async def test_flush_waits_for_what_was_published(self, pubsub: PubSub) -> None:
        """Everything accepted before is handled when it returns."""
        done: list[int] = []

        async def slowly(event: Event) -> None:
            for _ in range(10):
                await asyncio.sleep(0)
            done.append(event.data)

        await pubsub.subscribe("t", slowly)
        await publish_all(pubsub, "t", range(50))

        await pubsub.flush()

        assert list(range(50)) == sorted(done)

    async def test_flush_inside_a_handler_returns(self, pubsub: PubSub) -> None:
        """It doesn't wait for the handler that calls it."""
        done = asyncio.Event()

        async def flush(event: Event) -> None:
            await pubsub.flush()
            done.set()

        await pubsub.subscribe("t", flush)
        await pubsub.publish("t", make_event(1))

        async with asyncio.timeout(60):
            await done.wait()

    async def test_close_inside_a_handler_returns(self, open_pubsub: OpenPubSub) -> None:
        """Nor does closing."""
        done = asyncio.Event()
        async with open_pubsub() as bus:

            async def close(event: Event) -> None:
                await bus.aclose()
                done.set()

            await bus.subscribe("t", close)
            await bus.publish("t", make_event(1))
            async with asyncio.timeout(60):
                await done.wait()

    async def test_a_draining_handler_may_publish(self, open_pubsub: OpenPubSub) -> None:
        """What it publishes while the bus closes is stored."""
        go_on, started = asyncio.Event(), asyncio.Event()
        async with open_pubsub() as keeper:
            seen = Recorder()
            await keeper.subscribe("out", seen)
            async with open_pubsub() as bus:

                async def work(event: Event) -> None:
                    started.set()
                    await go_on.wait()
                    await bus.publish("out", make_event("last words"))

                await bus.subscribe("t", work)
                await bus.publish("t", make_event(1))
                await started.wait()
                closing = asyncio.create_task(bus.aclose())
                await asyncio.sleep(0)
                go_on.set()
                await closing
            await seen.until(1)
            assert ["last words"] == seen.data

    @requires("pubsub.leases")
    async def test_closing_releases_the_leases_of_the_bus(self, open_pubsub: OpenPubSub) -> None:
        """And its lease calls raise afterwards."""
        async with open_pubsub() as keeper, open_pubsub() as bus:
            mine, theirs = bus.get_lease_provider(), keeper.get_lease_provider()
            assert mine is not None
            assert theirs is not None
            await mine.acquire_lease("k", "a", 60_000)

            await bus.aclose()

            assert (await theirs.acquire_lease("k", "b", 60_000)).acquired
            with pytest.raises(PubSubClosedError):
                await mine.get_lease_owner("k")
