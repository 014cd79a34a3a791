"""Processes that share a thread, one of them cut off from the server (22, G2-G4, G14)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, ClassVar, Final

import pytest

from mastra_conformance import Suite, needs_server
from mastra_conformance.faults.notebook import Notebook
from mastra_conformance.faults.site import Site
from mastra_conformance.histories.thread_checker import Sent, check_thread, check_view
from mastra_conformance.suites.faults.participants import (
    TTL_MS,
    Participant,
    Places,
    participant,
)
from mastra_conformance.suites.faults.storage_outages import OUTAGES

__all__ = ("ThreadOutageSuite",)

_ROLES: Final = ("storage", "pubsub", "lease")


@needs_server()
class ThreadOutageSuite(Suite):
    """Whoever is cut off does no harm, and everything works when it is back."""

    role: ClassVar[str] = "runtime"
    capabilities: ClassVar[tuple[str, ...]] = (
        "memory",
        "thread_state",
        "pubsub.cross_process",
        "lease.cross_process",
    )
    tier: ClassVar[int] = 4

    @pytest.mark.parametrize("outage", ["cut", "blackhole"])
    @pytest.mark.parametrize("lost", [*_ROLES, "all"])
    async def test_an_owner_is_cut_off(
        self, site: Site, notebook: Notebook, lost: str, outage: str
    ) -> None:
        """In the middle of a run, past its lease; the other one is sent to meanwhile."""
        places = _through_network(site, lost)
        async with _two(site, notebook, places, stops=frozenset({1})) as (owner, here, sent):
            await owner.send("own1")
            await owner.gates.reached("1")
            await owner.queue("own2")
            OUTAGES[outage](site.network)
            meanwhile = [asyncio.ensure_future(here.send("here1"))]
            meanwhile.append(asyncio.ensure_future(here.queue("here2")))
            await asyncio.sleep(2 * TTL_MS / 1000)
            owner.gates.open("1")
            await asyncio.sleep(TTL_MS / 1000)
            await site.network.heal()
            await asyncio.gather(*meanwhile)
            await owner.send("own3")
            await _all_is_well(here, sent())

    @pytest.mark.parametrize("lost", [*_ROLES, "all"])
    async def test_a_short_cut_costs_time_alone(
        self, site: Site, notebook: Notebook, lost: str
    ) -> None:
        """Shorter than the lease: whoever is sent to answers."""
        places = _through_network(site, lost)
        async with _two(site, notebook, places, stops=frozenset({1})) as (owner, here, sent):
            await owner.send("own1")
            await owner.gates.reached("1")
            site.network.cut()
            sending = asyncio.ensure_future(here.send("here1"))
            owner.gates.open("1")
            await asyncio.sleep(TTL_MS / 1000 / 4)
            await site.network.heal()
            await sending
            await owner.queue("own2")
            await here.queue("here2")
            await _all_is_well(here, sent())

    @pytest.mark.parametrize("lost", [*_ROLES, "all"])
    async def test_a_sender_is_cut_off(self, site: Site, notebook: Notebook, lost: str) -> None:
        """What it is told is true: accepted is answered, and what is refused at most once."""
        places = _through_network(site, lost)
        async with _two(site, notebook, places, owner_stops=frozenset({1})) as (sender, here, sent):
            await here.send("here1")
            await here.gates.reached("1")
            site.network.cut()
            sending = [asyncio.ensure_future(sender.send("own1"))]
            sending.append(asyncio.ensure_future(sender.queue("own2")))
            await asyncio.sleep(TTL_MS / 1000)
            await site.network.heal()
            here.gates.open("1")
            await asyncio.gather(*sending)
            await sender.send("own3")
            await _all_is_well(here, sent())


def _through_network(site: Site, lost: str) -> Places:
    """These roles through the network that breaks, the others past it."""
    openers = {role: site.quick(role) if lost in (role, "all") else site.direct for role in _ROLES}
    return Places(**openers)


@asynccontextmanager
async def _two(
    site: Site,
    notebook: Notebook,
    places: Places,
    *,
    stops: frozenset[int] = frozenset(),
    owner_stops: frozenset[int] = frozenset(),
) -> AsyncIterator[tuple[Participant, Participant, Any]]:
    """The one that is cut off, the other one with a reader, and everything that was sent."""
    async with AsyncExitStack() as stack:
        # Empty, and for all at once: tables are shared by the tests.
        await stack.enter_async_context(site.direct.clean_storage())
        cut = await stack.enter_async_context(participant(places, "own", stops=stops))
        here = await stack.enter_async_context(participant(site.direct, "here", stops=owner_stops))
        async with here.reads() as seen:
            try:
                yield cut, here, lambda: [*cut.sent, *here.sent]
            finally:
                rows = await here.rows()
                notebook.note("Rows", "\n".join(f"{row.role}: {row.text}" for row in rows))
                notebook.note("Seen", "\n".join(map(str, seen)))
        await here.is_done()
        answers = [row.text for row in rows if row.role == "assistant"]
        assert [] == check_view(seen, answers)


async def _all_is_well(here: Participant, sent: Sequence[Sent]) -> None:
    await here.answered(*(one.word for one in sent if one.is_accepted))
    await here.is_quiet()
    # What was refused may still be answered by whoever found it, until now.
    rows = await here.rows()
    untold = [replace(one, turn=None) if not one.is_accepted else one for one in sent]
    assert [] == check_thread(rows, untold)
