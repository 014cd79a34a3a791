"""The place of a fault test: an adapter, its server, and the network between them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from mastra_conformance.faults.addresses import (
    address_of,
    as_asked,
    through_port,
    with_options,
)
from mastra_conformance.faults.own_server import BreakableServer
from mastra_conformance.faults.proxy import Network, open_network
from mastra_conformance.faults.tuning import quick_options
from mastra_conformance.opening import Opener
from mastra_conformance.subject import Subject
from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids

__all__ = ("Site", "open_site")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a fault test works with; everything is whole again when the next one starts."""

    subject: Subject
    server: BreakableServer
    network: Network
    #: Opens handles through the network that the test breaks.
    opener: Opener
    #: Opens handles that go to the server directly, for whoever shall not notice.
    direct: Opener

    def quick(self, role: str, **options: Any) -> Opener:
        """Handles through the network, with every timeout of the role as short as tests need it."""
        return _tuned(self.opener, role, options)

    def quick_direct(self, role: str, **options: Any) -> Opener:
        """The same past the network."""
        return _tuned(self.direct, role, options)


@asynccontextmanager
async def open_site(
    subject: Subject,
    server: BreakableServer,
    *,
    nodeid: str,
    seed: int,
    clock: Clock,
    ids: Ids,
) -> AsyncIterator[Site]:
    """The place of one test; afterwards the server runs again."""
    own = replace(subject, url=as_asked(server.url, subject.url))
    await server.ensure_running()
    direct = Opener.for_test(own, nodeid=nodeid, seed=seed, clock=clock, ids=ids)
    async with open_network(*address_of(server.url)) as network:
        opener = direct.with_url(through_port(own.url, network.port))
        try:
            yield Site(subject=own, server=server, network=network, opener=opener, direct=direct)
        finally:
            await network.heal()
            await server.ensure_running()


def _tuned(opener: Opener, role: str, options: dict[str, Any]) -> Opener:
    given = {**quick_options(opener.subject.spec(role)), **options}
    return opener.with_url(with_options(opener.place.url, **given))
