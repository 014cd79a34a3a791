"""The server that a test may kill: always one of ours, never the one that a user gave.

Chosen by ``--mastra-own-server``: a known product with an optional version
(``postgres@18``), or an import string of a ``Product`` of the adapter's author
(``acme_tests.servers:ACME``). Without it, the product whose URLs look like the adapter's.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Final, TypeVar

from mastra_conformance.outcomes import not_run
from mastra_conformance.servers import Missing, Product, RunningServer, product_named, start_server
from mastra_conformance.servers.find import find_server
from mastra_conformance.servers.registry import PRODUCTS
from mastra_core.plugins import parse_adapter_url

__all__ = ("BreakableServer", "product_for", "start_own_server")

T = TypeVar("T")

#: No server listens there; only the form of its URL is looked at.
_ANY_PORT: Final = 1


class BreakableServer:
    """A running server of ours, for the event loop: its blocking methods run in a thread."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._is_paused = False

    @property
    def url(self) -> str:
        """Where it answers; stays the same over restarts."""
        return self._server.url

    @property
    def name(self) -> str:
        """Product and version."""
        return " ".join(filter(None, (self._server.product.name, self._server.version)))

    def output(self) -> str:
        """The last things that it printed."""
        return self._server.output()

    async def stop(self) -> None:
        """End it cleanly."""
        await self._do(self._server.stop)

    async def kill(self) -> None:
        """End it as a crash does."""
        await self._do(self._server.kill)

    async def start(self) -> None:
        """Start it again on the same data; nothing happens if it runs."""
        await self._do(self._server.start)

    async def restart(self, *, immediate: bool) -> None:
        """Away and back, cleanly or as after a crash."""
        await (self.kill() if immediate else self.stop())
        await self.start()

    async def pause(self) -> None:
        """It stands still; connections stay, nobody answers."""
        await self._do(self._server.pause)
        self._is_paused = True

    async def resume(self) -> None:
        """It goes on after a pause."""
        await self._do(self._server.resume)
        self._is_paused = False

    async def ensure_running(self) -> None:
        """Whatever a test did to it, it answers again."""
        if self._is_paused:
            await self.resume()
        await self.start()

    async def _do(self, work: Callable[[], T]) -> T:
        # A server that is half-way started or stopped would be lost to the next test.
        return await asyncio.shield(asyncio.to_thread(work))


def product_for(url: str, wanted: str | None) -> Product | None:
    """
    What to start for the adapter of a URL; None if no known product has such URLs.

    Raises:
        LookupError: The wanted product is unknown.
    """
    if wanted and ":" in wanted:
        module, _, name = wanted.partition(":")
        try:
            found = getattr(import_module(module), name)
        except (ImportError, AttributeError) as exc:
            raise LookupError(f"There is no server {wanted!r}: {exc}.") from exc
        if not isinstance(found, Product):
            raise LookupError(f"{wanted!r} is no Product.")
        return found
    if wanted:
        return product_named(wanted)
    scheme = parse_adapter_url(url).scheme
    for product in PRODUCTS:
        if parse_adapter_url(product.url(_ANY_PORT)).scheme == scheme:
            return product
    return None


@contextmanager
def start_own_server(url: str, wanted: str | None) -> Iterator[RunningServer]:
    """
    A server of ours for an adapter, for the length of the block.

    A test that asks for one that isn't here is not run, with the reason and the command.
    """
    product = product_for(url, wanted)
    if product is None:
        not_run(
            "No known server has URLs like the adapter's, so none can be started and broken.",
            command="--mastra-own-server NAME[@VERSION] or MODULE:PRODUCT",
        )
    # A server that somebody else runs isn't ours to break.
    match find_server(product, environ=_without(product.variable)):
        case Missing(reason=reason, command=command):
            not_run(reason, command=command)
        case found:
            arguments = product.careful_arguments
            with start_server(product, found, arguments=arguments) as server:
                yield server


def _without(variable: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != variable}
