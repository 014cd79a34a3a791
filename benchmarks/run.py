"""
Measure the stores, buses and leases, and print what each goal asks for beside what was found.

Without options it is short: the store in memory and the libSQL file against its driver, pages of
databases of 1,000 and 20,000 rows, and how long the event loop stands still. With --all also
every server that this machine has, against its driver, and everything against the TypeScript
stores where there is a Node with the packages. What can't be run is reported as not run.

examples:
  python benchmarks/run.py --all
  python benchmarks/run.py --backend postgres --part operations --only "snapshot"
  python benchmarks/run.py --backend redis --part growth --rows 1000,10000,100000,1000000
  python benchmarks/run.py --all --part typescript --large 100000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import memory_store
import runtime
import runtime_typescript
import signals
from growth import open_growth
from harness import Result, Scenario, measure
from operations import operations
from places import BACKENDS, Place, find_place
from received import measure_received
from report import as_json, environment, tables
from stalls import measure_stalls
from typescript import not_run, open_typescript

from mastra_conformance.servers import Missing
from mastra_core.inmemory.storage import InMemoryStorage

FORMAT: Final = "mastra-bench/2"
PARTS: Final = (
    "operations", "growth", "stalls", "runtime", "threads", "received", "typescript",
)  # fmt: skip
MEMORY: Final = "memory"
#: What the short run measures; everything else is behind ``--all``.
SHORT_BACKENDS: Final = (MEMORY, "libsql file")
SHORT_PARTS: Final = ("operations", "growth", "stalls", "runtime")


class Bench:
    """One run: what is wanted, and what was found so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self.results: list[Result] = []
        #: Products and versions that were met.
        self.servers: dict[str, str] = {}

    def run(self) -> None:
        """Everything that is wanted, one backend after the other."""
        for backend in self._options.backends:
            if backend == MEMORY:
                asyncio.run(self._in_memory())
                continue
            with find_place(backend) as place:
                if isinstance(place, Missing):
                    reason = f"{place.reason} Try: {place.command}"
                    self.results.append(not_run(backend, "everything", reason))
                else:
                    asyncio.run(self._at(place))

    def _wants(self, part: str) -> bool:
        return part in self._options.parts

    async def _in_memory(self) -> None:
        if self._wants("operations"):
            async with memory_store.open_scenarios() as scenarios:
                await self._take(scenarios)
        if self._wants("runtime"):
            with tempfile.TemporaryDirectory() as folder:
                async with runtime.open_scenarios(
                    Path(folder), on_processor=self._options.on_processor
                ) as scenarios:
                    await self._take(scenarios)
        if self._wants("typescript"):
            with tempfile.TemporaryDirectory() as folder:
                async with runtime_typescript.open_comparisons(
                    Path(folder), on_processor=self._options.on_processor
                ) as scenarios:
                    await self._take(scenarios)
        if self._wants("threads"):
            async with signals.open_in_memory(on_processor=self._options.on_processor) as scenarios:
                await self._take(scenarios)
        if self._wants("stalls"):
            async with InMemoryStorage() as store:
                await self._stalls(MEMORY, store)

    async def _at(self, place: Place) -> None:
        options = self._options
        if self._wants("operations"):
            async with place.open() as driver:
                product, version = await driver.server_version()
                self.servers[product] = version
                await self._take(operations(driver, rounds=options.rounds, seed=options.seed))
        if self._wants("growth") and len(options.rows) > 1:
            async with open_growth(place, sizes=options.rows) as scenarios:
                await self._take(scenarios)
        if self._wants("stalls"):
            async with place.open_store(place.url_of("stalls")) as store:
                await self._stalls(place.backend, store)
                await store.dangerously_clear_all()
        if self._wants("threads"):
            async with place.open() as driver, signals.open_signals(driver) as scenarios:
                await self._take(scenarios)
        if self._wants("received"):
            found = measure_received(place, rounds=options.rounds, only=options.only)
            self.results += [result async for result in found]
        if self._wants("typescript"):
            async with open_typescript(place, large=options.large) as scenarios:
                await self._take(scenarios)

    async def _stalls(self, backend: str, store: Any) -> None:
        options = self._options
        longest = measure_stalls(
            backend, store, rounds=options.rounds, only=options.only,
            on_processor=options.on_processor,
        )  # fmt: skip
        self.results += [result async for result in longest]

    async def _take(self, scenarios: AsyncIterable[Scenario | Result]) -> None:
        async for scenario in scenarios:
            if isinstance(scenario, Result):
                self.results.append(scenario)
            elif self._options.only in scenario.label:
                print(f"… {scenario.label}", file=sys.stderr)
                self.results.append(await measure(scenario, rounds=self._options.rounds))


def main() -> int:
    """Measure, print the tables, write the JSON."""
    options = _options()
    bench = Bench(options)
    try:
        bench.run()
    finally:
        print(tables(bench.results))
        missed = [result for result in bench.results if result.met is False]
        print(f"\n{len(bench.results)} figures, {len(missed)} goals missed")
        if options.json:
            _write(options, bench)
    # A missed goal is reported, not hidden; it never fails a run on a shared machine.
    return 0


def _write(options: argparse.Namespace, bench: Bench) -> None:
    content = {
        "format": FORMAT,
        "environment": environment(bench.servers.items()),
        "seed": options.seed,
        "rounds": options.rounds,
        "rows": options.rows,
        "large": options.large,
        "on_processor": options.on_processor,
        "results": as_json(bench.results),
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = (MEMORY, *BACKENDS)
    add = parser.add_argument
    add("--all", action="store_true", help="every backend and every part")
    add("--backend", action="append", dest="backends", choices=known, metavar="NAME",
        help=f"this backend, may be repeated; of {', '.join(known)}")  # fmt: skip
    add("--part", action="append", dest="parts", choices=PARTS, metavar="NAME",
        help=f"this part, may be repeated; of {', '.join(PARTS)}")  # fmt: skip
    add("--only", default="", metavar="TEXT", help="only what has this text in its name")
    add("--rounds", type=int, default=5, help="turns of each comparison (default 5)")
    add("--seed", type=int, default=1, help="what random ids come of (default 1)")
    add("--rows", type=_sizes, default=[1_000, 20_000], metavar="N,N…",
        help="rows of the databases whose pages are compared (default 1000,20000)")  # fmt: skip
    add("--large", type=int, default=0, metavar="N",
        help="suspended runs in the large table of the part typescript (default: none)")  # fmt: skip
    add("--on-processor", action="store_true",
        help="of runs without a server and of rounds of the event loop, count the time on a processor")  # fmt: skip
    add("--json", type=Path, metavar="FILE", help="write the results here")
    options = parser.parse_args()
    options.backends = options.backends or (known if options.all else SHORT_BACKENDS)
    options.parts = options.parts or (PARTS if options.all else SHORT_PARTS)
    return options


def _sizes(text: str) -> list[int]:
    with suppress(ValueError):
        if sizes := sorted({int(one) for one in text.split(",")}):
            return sizes
    raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers, such as 1000,20000")


if __name__ == "__main__":
    sys.exit(main())
