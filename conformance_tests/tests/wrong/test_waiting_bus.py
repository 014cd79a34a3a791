"""The suites hold for a driver that waits in every call, as those of servers do."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
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
from mastra_core.bus import DirectDriver, EventEngine
from mastra_core.errors import PubSubConnectionError
from mastra_core.inmemory.pubsub import InMemoryPubSub, InMemoryPubSubSettings
from mastra_core.plugins import AdapterContext

pytestmark = pytest.mark.anyio

SUITES: tuple[type[Suite], ...] = (
    PublishingSuite,
    SubscribingSuite,
    GroupSuite,
    BatchingSuite,
    HistorySuite,
    ClosingSuite,
    PubSubConcurrencySuite,
)

#: Calls whose failure the engine must survive by itself.
READS = frozenset({"read_after", "claim", "wake", "extend"})


class WaitingDriver:
    """Another driver, each call of which takes a few turns; reads fail now and then."""

    def __init__(self, inner: Any, *, fails_every: int = 0) -> None:
        self._inner = inner
        self._fails_every = fails_every
        self._calls = itertools.count(1)
        self.capabilities = inner.capabilities

    def __getattr__(self, name: str) -> Any:
        if name in {"read_now", "append_now"}:
            raise AttributeError(name)
        found = getattr(self._inner, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def waiting(*arguments: Any, **options: Any) -> Any:
            for _ in range(2):
                await asyncio.sleep(0)
            if name in READS and self._fails_every and next(self._calls) % self._fails_every == 0:
                raise PubSubConnectionError("The line is cut.")
            answer = await found(*arguments, **options)
            await asyncio.sleep(0)
            return answer

        return waiting


class WaitingBus(InMemoryPubSub):
    """A bus on such a driver."""

    fails_every = 0

    def __init__(self, settings: InMemoryPubSubSettings, context: AdapterContext) -> None:
        super().__init__(settings, context)
        driver: Any = WaitingDriver(self._driver, fails_every=self.fails_every)
        assert not isinstance(driver, DirectDriver)
        EventEngine.__init__(
            self,
            driver,
            settings=settings.bus_settings(),
            clock=context.clock,
            ids=context.ids,
            name="waiting",
        )


class FailingBus(WaitingBus):
    """Every seventh read fails."""

    fails_every = 7


def _rows() -> Iterator[Any]:
    for suite in SUITES:
        for name in vars(suite):
            if not name.startswith("test_"):
                continue
            for parameters in _parameters(getattr(suite, name)):
                label = "-".join([suite.__name__, name.removeprefix("test_"), *parameters[0]])
                yield pytest.param(suite, name, parameters[1], id=label)


def _parameters(test: Any) -> Iterator[tuple[list[str], dict[str, Any]]]:
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    if not marks:
        yield [], {}
        return
    (mark,) = marks
    names = [mark.args[0]] if isinstance(mark.args[0], str) else list(mark.args[0])
    names = [part.strip() for name in names for part in name.split(",")]
    for place, values in enumerate(mark.args[1]):
        given = dict(zip(names, values if len(names) > 1 else [values], strict=True))
        yield [str(place)], given


@pytest.mark.parametrize(("suite", "test", "parameters"), list(_rows()))
async def test_the_suites_pass_on_a_waiting_driver(
    bench: Any, suite: type[Suite], test: str, parameters: dict[str, Any]
) -> None:
    """The same duties where nothing is direct."""
    await replace(bench, make_bus=WaitingBus).run(suite, test, **parameters)


#: They measure, or read by themselves, which may raise.
EXACT = frozenset(
    {
        "test_the_deadline_counts_from_the_first_event",
        "test_a_nack_brings_it_back_after_a_pause",
        "test_a_member_runs_no_more_than_it_wants",
        "test_indexes_stay_dense_under_load",
    }
)


LIVE = (SubscribingSuite, GroupSuite, PubSubConcurrencySuite)


@pytest.mark.parametrize(
    ("suite", "test", "parameters"),
    [row for row in _rows() if row.values[0] in LIVE and row.values[1] not in EXACT],
)
async def test_the_suites_pass_when_reads_fail(
    bench: Any, suite: type[Suite], test: str, parameters: dict[str, Any]
) -> None:
    """P17: a lost connection shows as latency only."""
    await replace(bench, make_bus=FailingBus).run(suite, test, **parameters)
