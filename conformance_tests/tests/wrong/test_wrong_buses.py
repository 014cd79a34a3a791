"""Buses that are wrong on purpose; the suites catch each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mastra_conformance import Suite
from mastra_conformance.suites.pubsub.batching import BatchingSuite
from mastra_conformance.suites.pubsub.closing import ClosingSuite
from mastra_conformance.suites.pubsub.concurrency import PubSubConcurrencySuite
from mastra_conformance.suites.pubsub.groups import GroupSuite
from mastra_conformance.suites.pubsub.history import HistorySuite
from mastra_conformance.suites.pubsub.publishing import PublishingSuite
from mastra_conformance.suites.pubsub.subscribing import SubscribingSuite
from mastra_core.bus.handlers import accepted_arguments
from mastra_core.inmemory.pubsub import InMemoryPubSub, InMemoryPubSubSettings
from mastra_core.plugins import AdapterContext
from mastra_core.wire.events import Event

pytestmark = pytest.mark.anyio


class WrappingBus(InMemoryPubSub):
    """Puts something around each handler."""

    def __init__(self, settings: InMemoryPubSubSettings, context: AdapterContext) -> None:
        super().__init__(self.change(settings), context)
        self.wrapped: dict[Any, Any] = {}

    def change(self, settings: InMemoryPubSubSettings) -> InMemoryPubSubSettings:
        return settings

    def wrap(self, topic: str, handler: Callable[..., Any]) -> Callable[..., Any]:
        return handler

    async def subscribe(self, topic: str, handler: Any, **options: Any) -> None:
        wrapped = self.wrapped.setdefault((topic, handler), self.wrap(topic, handler))
        await super().subscribe(topic, wrapped, **options)

    async def unsubscribe(self, topic: str, handler: Any) -> None:
        await super().unsubscribe(topic, self.wrapped.pop((topic, handler), handler))


async def call(handler: Callable[..., Any], *arguments: Any) -> None:
    """Call a handler as the engine does."""
    result = handler(*arguments[: accepted_arguments(handler)])
    if asyncio.iscoroutine(result):
        await result


class LateBus(InMemoryPubSub):
    """Returns from subscribe before it listens."""

    async def subscribe(self, topic: str, handler: Any, **options: Any) -> None:
        later = super().subscribe
        asyncio.get_running_loop().call_soon(
            lambda: asyncio.ensure_future(later(topic, handler, **options))
        )


class SharingBus(WrappingBus):
    """Hands one envelope to all."""

    def wrap(self, topic: str, handler: Callable[..., Any]) -> Callable[..., Any]:
        shared = self.__dict__.setdefault("shared", {})

        async def sharing(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            await call(handler, shared.setdefault(event.id, event), ack, nack, extend)

        return sharing


class DoublingBus(InMemoryPubSub):
    """Knows a handler by nothing, so it is subscribed each time."""

    async def subscribe(self, topic: str, handler: Any, **options: Any) -> None:
        async def another(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            await call(handler, event, ack, nack, extend)

        await super().subscribe(topic, another, **options)


class RepublishingBus(WrappingBus):
    """A nack is a new event for everybody."""

    def wrap(self, topic: str, handler: Callable[..., Any]) -> Callable[..., Any]:
        async def republishing(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            async def nack_all(error: Any = None) -> None:
                await ack()
                await self.publish(topic, event)

            await call(handler, event, ack, nack_all, extend)

        return republishing


class ForgivingBus(WrappingBus):
    """A failure is as good as a success."""

    def wrap(self, topic: str, handler: Callable[..., Any]) -> Callable[..., Any]:
        async def forgiving(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            try:
                await call(handler, event, ack, nack, extend)
            except (Exception, asyncio.CancelledError):  # noqa: BLE001 – that is the fault
                await ack()

        return forgiving


class HastyBus(WrappingBus):
    """Whoever returns has acked."""

    def wrap(self, topic: str, handler: Callable[..., Any]) -> Callable[..., Any]:
        async def hasty(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            await call(handler, event, ack, nack, extend)
            await ack()

        return hasty


class LastWordBus(WrappingBus):
    """The last settlement wins: a nack after an ack comes as a new delivery."""

    def wrap(self, topic: str, handler: Callable[..., Any]) -> Callable[..., Any]:
        async def last_word(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            async def late_nack(error: Any = None) -> None:
                await ack()
                await self.publish(topic, event)

            await call(handler, event, ack, late_nack, extend)

        return last_word


class EndlessBus(WrappingBus):
    """Never gives up."""

    def change(self, settings: InMemoryPubSubSettings) -> InMemoryPubSubSettings:
        return settings.model_copy(update={"max_delivery_attempts": float("inf")})


class NumbBus(WrappingBus):
    """Has no heartbeats."""

    def change(self, settings: InMemoryPubSubSettings) -> InMemoryPubSubSettings:
        return settings.model_copy(update={"max_processing_ms": 0})


class ImpatientBus(WrappingBus):
    """Retries at once."""

    def change(self, settings: InMemoryPubSubSettings) -> InMemoryPubSubSettings:
        return settings.model_copy(update={"retry_base_ms": 1, "retry_cap_ms": 0})


class HoardingBus(WrappingBus):
    """Keeps everything."""

    def change(self, settings: InMemoryPubSubSettings) -> InMemoryPubSubSettings:
        return settings.model_copy(update={"max_entries": 1_000_000})


class OptionlessBus(InMemoryPubSub):
    """Takes some options without obeying them."""

    ignored: tuple[str, ...] = ()

    async def subscribe(self, topic: str, handler: Any, **options: Any) -> None:
        for name in self.ignored:
            options.pop(name, None)
        await super().subscribe(topic, handler, **options)


class DisorderlyBus(OptionlessBus):
    ignored = ("ordered",)


class GreedyBus(OptionlessBus):
    """No backpressure."""

    ignored = ("max_in_flight",)


class DrippingBus(OptionlessBus):
    """No bursts."""

    ignored = ("batch",)


class FanningBus(OptionlessBus):
    """Every member of a group gets every event."""

    ignored = ("group",)


class NostalgicBus(OptionlessBus):
    """Always starts at the beginning."""

    ignored = ("start_from",)


class SilentBus(InMemoryPubSub):
    """Says nothing about gaps."""

    async def subscribe_from_offset(
        self, topic: str, offset: int, handler: Any, *, on_gap: Any = None
    ) -> None:
        await super().subscribe_from_offset(topic, offset, handler)


class CarelessBus(InMemoryPubSub):
    """Publishes without some of the options."""

    ignored: tuple[str, ...] = ()

    async def publish(self, topic: str, event: Event, **options: Any) -> None:
        for name in self.ignored:
            options.pop(name, None)
        await super().publish(topic, event, **options)


class LoudBus(CarelessBus):
    ignored = ("local_only",)


class RepeatingBus(CarelessBus):
    ignored = ("dedupe_id",)


class UnfencedBus(CarelessBus):
    ignored = ("fence",)


class SwappingBus(InMemoryPubSub):
    """Now and then an event overtakes the one before it."""

    count = 0

    async def publish(self, topic: str, event: Event, **options: Any) -> None:
        self.count += 1
        if self.count % 3 == 0:
            later = super().publish
            asyncio.get_running_loop().call_soon(
                lambda: asyncio.ensure_future(later(topic, event, **options))
            )
        else:
            await super().publish(topic, event, **options)


class PermissiveBus(InMemoryPubSub):
    """Takes what has no form outside this process, as it is."""

    def __init__(self, settings: InMemoryPubSubSettings, context: AdapterContext) -> None:
        super().__init__(settings, context)
        self._driver.encode = lambda topic, event: (event, 0)  # type: ignore[method-assign]


class MonotonousBus(InMemoryPubSub):
    """A cleared topic goes on counting."""

    async def clear_topic(self, topic: str) -> None:
        for event in await self.get_history(topic):
            await self.trim_topic(topic, run_id=event.run_id)


class GrumpyBus(InMemoryPubSub):
    """Clearing may raise."""

    async def clear_topic(self, topic: str) -> None:
        await self._driver.clear(topic)


class BriskBus(InMemoryPubSub):
    """Flushes nothing."""

    async def flush(self, *, timeout_ms: int = 30_000) -> None:
        return


class RudeBus(InMemoryPubSub):
    """Closes without giving anything back."""

    async def aclose(self) -> None:
        self._driver.settle = _do_nothing  # type: ignore[method-assign]
        self._driver.leave_group = _do_nothing  # type: ignore[method-assign]
        await super().aclose()


class UndoingBus(InMemoryPubSub):
    """Who leaves takes back each attempt, failed ones too."""

    def __init__(self, settings: InMemoryPubSubSettings, context: AdapterContext) -> None:
        super().__init__(settings, context)
        leave = self._driver.leave_group

        async def undo_and_leave(topic: str, group: str, consumer: str) -> None:
            for held in self._driver.hub.existing(topic).groups[group].held.values():
                if held.consumer is None:
                    held.attempt -= 1
            await leave(topic, group, consumer)

        self._driver.leave_group = undo_and_leave  # type: ignore[method-assign]


class ImmortalBus(InMemoryPubSub):
    """Keeps its leases when it is closed."""

    async def _release_leases(self) -> None:
        return


async def _do_nothing(*arguments: Any) -> list[Any]:
    return []


Row = tuple[type[InMemoryPubSub], type[Suite], str, dict[str, Any]]

ROWS: list[Row] = [
    (LateBus, SubscribingSuite, "test_no_event_after_subscribe_is_missed", {}),
    (SharingBus, PublishingSuite, "test_changing_an_event_is_private", {}),
    (DoublingBus, SubscribingSuite, "test_subscribing_twice_is_once", {}),
    (DoublingBus, SubscribingSuite, "test_a_bound_method_is_found_again", {}),
    (NostalgicBus, SubscribingSuite, "test_where_a_subscription_starts", {}),
    (NostalgicBus, SubscribingSuite, "test_a_cursor_resumes_after_its_event", {}),
    (FanningBus, GroupSuite, "test_members_share", {}),
    (RepublishingBus, GroupSuite, "test_a_nack_concerns_its_group_only", {}),
    (RepublishingBus, GroupSuite, "test_a_nack_brings_it_back_after_a_pause", {}),
    (ImpatientBus, GroupSuite, "test_a_nack_brings_it_back_after_a_pause", {}),
    (ForgivingBus, GroupSuite, "test_a_raising_handler_is_a_nack", {"failing": None}),
    (HastyBus, GroupSuite, "test_an_unsettled_event_comes_back", {"fault": "forgets"}),
    (HastyBus, GroupSuite, "test_a_leaving_member_gives_back", {}),
    (
        LastWordBus,
        GroupSuite,
        "test_the_first_settlement_wins",
        {"order": ("ack", "nack"), "deliveries": 1},
    ),
    (EndlessBus, GroupSuite, "test_after_the_last_attempt_it_is_a_dead_letter", {}),
    (NumbBus, GroupSuite, "test_a_long_handler_keeps_its_event", {}),
    (DisorderlyBus, GroupSuite, "test_ordered_waits_for_the_retry", {}),
    (
        DisorderlyBus,
        PubSubConcurrencySuite,
        "test_ordered_groups_keep_order_over_members",
        {},
    ),
    (GreedyBus, GroupSuite, "test_a_member_runs_no_more_than_it_wants", {}),
    (RudeBus, GroupSuite, "test_closing_gives_back", {}),
    (
        UndoingBus,
        GroupSuite,
        "test_leaving_undoes_no_failed_attempt",
        {"leaving": "unsubscribes"},
    ),
    (UndoingBus, GroupSuite, "test_leaving_undoes_no_failed_attempt", {"leaving": "closes"}),
    (UndoingBus, GroupSuite, "test_members_that_leave_use_up_the_attempts", {}),
    (DrippingBus, BatchingSuite, "test_full_buffers_make_bursts", {}),
    (DrippingBus, BatchingSuite, "test_a_floor_alone_sets_no_timer", {}),
    (SilentBus, HistorySuite, "test_a_trimmed_log_reports_the_gap", {}),
    (HoardingBus, HistorySuite, "test_a_slow_subscriber_costs_no_memory", {}),
    (LoudBus, PublishingSuite, "test_local_events_stay_here", {}),
    (RepeatingBus, PublishingSuite, "test_a_repeated_publish_is_stored_once", {}),
    (UnfencedBus, PublishingSuite, "test_an_old_fence_cannot_publish", {}),
    (SwappingBus, HistorySuite, "test_history_is_dense_and_ordered", {}),
    (SwappingBus, PubSubConcurrencySuite, "test_all_instances_see_one_order", {}),
    (PermissiveBus, PublishingSuite, "test_what_has_no_wire_form_is_refused", {"kind": "object"}),
    (PermissiveBus, PublishingSuite, "test_the_size_limit_is_exact", {}),
    (PermissiveBus, PublishingSuite, "test_the_data_is_that_of_the_publish", {}),
    (MonotonousBus, HistorySuite, "test_a_cleared_topic_starts_anew", {}),
    (GrumpyBus, HistorySuite, "test_clearing_never_raises", {}),
    (BriskBus, ClosingSuite, "test_flush_waits_for_what_was_published", {}),
    (ImmortalBus, ClosingSuite, "test_closing_releases_the_leases_of_the_bus", {}),
]


async def _fail(*arguments: Any) -> None:
    raise ValueError(arguments)


def _parameters(row: Row) -> dict[str, Any]:
    return {name: _fail if name == "failing" else value for name, value in row[3].items()}


def _name(row: Row) -> str:
    return f"{row[0].__name__}-{row[2].removeprefix('test_')}"


@pytest.mark.parametrize("row", ROWS, ids=_name)
async def test_a_wrong_bus_is_caught(hasty_bench: Any, row: Row) -> None:
    """The test of the suite that is there for this fault fails."""
    wrong, suite, test, _ = row

    try:
        await replace(hasty_bench, make_bus=wrong).run(suite, test, **_parameters(row))
    except (Exception, pytest.fail.Exception, BaseExceptionGroup):  # noqa: BLE001 – any failure counts
        return
    pytest.fail(f"{suite.__name__}.{test} passes with {wrong.__name__}.")


@pytest.mark.parametrize("row", ROWS, ids=_name)
async def test_the_right_bus_passes(bench: Any, row: Row) -> None:
    """The same call with the right adapter, so that the failure is about the fault."""
    await bench.run(row[1], row[2], **_parameters(row))
