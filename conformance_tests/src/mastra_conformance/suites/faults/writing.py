"""Writers that remember what they were told, and what must be there because of it.

An acknowledged batch is there afterwards; one that wasn't acknowledged is there as a whole
or not at all; nothing is there that nobody wrote.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from mastra_conformance.faults.outcomes import attempt
from mastra_conformance.suites.storage.things import message, thread
from mastra_core.contracts.storage import Storage
from mastra_core.errors import StorageError

__all__ = (
    "BATCH",
    "Ledger",
    "batch",
    "check_counter",
    "check_ledger",
    "count_up",
    "found_batches",
    "prepare_writers",
    "write_batches",
)

BATCH: Final = 4
"""Messages of one batch."""

_PAUSE_S: Final = 0.01


@dataclass(slots=True)
class Ledger:
    """What writers tried and what the store confirmed."""

    tried: list[tuple[str, int]] = field(default_factory=list)
    acked: set[tuple[str, int]] = field(default_factory=set)
    errors: Counter[str] = field(default_factory=Counter)

    def count(self, writer: str) -> int:
        """Batches that the store confirmed to a writer."""
        return sum(name == writer for name, _ in self.acked)

    def __str__(self) -> str:
        return f"{len(self.tried)} tried, {len(self.acked)} confirmed, errors {dict(self.errors)}"


def batch(writer: str, number: int) -> list[Any]:
    """The messages of one batch."""
    return [message(f"{writer}-{number}-{place}", thread_id=writer) for place in range(BATCH)]


async def write_batches(
    store: Storage, writer: str, ledger: Ledger, is_over: Callable[[], bool]
) -> None:
    """Write one batch after the other; what fails is not tried again."""
    number = 0
    while not is_over():
        ledger.tried.append((writer, number))
        messages = batch(writer, number)
        error = await attempt("storage", lambda: store.memory.save_messages(messages))  # noqa: B023 – awaited at once
        if error is None:
            ledger.acked.add((writer, number))
        else:
            ledger.errors[type(error).__name__] += 1
        number += 1
        await asyncio.sleep(_PAUSE_S)


async def found_batches(store: Storage, writer: str) -> Counter[int]:
    """Batch → how many of its messages are there."""
    page = await store.memory.list_messages(writer, per_page=False)
    return Counter(int(row.id.split("-")[-2]) for row in page.messages)


async def check_ledger(store: Storage, ledger: Ledger) -> list[str]:
    """The faults, one sentence each; none if every promise was kept."""
    faults: list[str] = []
    for writer in sorted({name for name, _ in ledger.tried}):
        found = await found_batches(store, writer)
        tried = {number for name, number in ledger.tried if name == writer}
        for number in sorted(tried | set(found)):
            count = found[number]
            if number not in tried:
                faults.append(f"{writer}: batch {number} is there, but nobody wrote it.")
            elif (writer, number) in ledger.acked and count != BATCH:
                faults.append(f"{writer}: batch {number} was confirmed, {count} rows are there.")
            elif count not in {0, BATCH}:
                faults.append(f"{writer}: batch {number} is torn, {count} rows are there.")
    return faults


async def prepare_writers(store: Storage, *writers: str) -> None:
    """The threads that the writers write to."""
    for writer in writers:
        await store.memory.save_thread(thread(writer))


async def count_up(
    store: Storage, key: str, outcomes: Counter[str], is_over: Callable[[], bool]
) -> None:
    """Add one to a value again and again; ``outcomes`` counts what was ``tried`` and ``acked``."""
    while not is_over():
        try:
            value = await store.thread_state.get_state(key, "count") or 0
        except StorageError:
            await asyncio.sleep(_PAUSE_S)
            continue
        outcomes["tried"] += 1

        async def add(value: int = value) -> None:
            if await store.thread_state.compare_and_set(
                key, "count", expected=value or None, value=value + 1
            ):
                outcomes["acked"] += 1

        await attempt("storage", add)
        await asyncio.sleep(_PAUSE_S)


async def check_counter(store: Storage, key: str, outcomes: Counter[str]) -> list[str]:
    """Nothing that was confirmed is missing, and nothing was added that nobody tried to add."""
    value = await store.thread_state.get_state(key, "count") or 0
    if outcomes["acked"] <= value <= outcomes["tried"]:
        return []
    return [f"{key} is {value}; {outcomes['acked']} were confirmed, {outcomes['tried']} tried."]
