"""The parts of which fault tests are made."""

from __future__ import annotations

import asyncio
import random
import subprocess
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mastra_conformance.faults.addresses import (
    address_of,
    as_asked,
    through_port,
    with_options,
)
from mastra_conformance.faults.cancelling import as_coroutine, cancelled_at_every_wait
from mastra_conformance.faults.events import Mischief, UnreliableBus
from mastra_conformance.faults.outcomes import attempt, recovers, until
from mastra_conformance.faults.own_server import product_for
from mastra_conformance.faults.tuning import knows_option, quick_options
from mastra_conformance.faults.versions import older_version
from mastra_conformance.histories.queue_checker import Handled
from mastra_conformance.outcomes import NotRunError
from mastra_conformance.subject import find_subject
from mastra_conformance.suites.faults.publishing import GroupReaderLog
from mastra_conformance.suites.faults.writing import Ledger, check_counter, check_ledger
from mastra_conformance.suites.storage.things import message, thread
from mastra_core.errors import PubSubConnectionError, StorageConnectionError
from mastra_core.inmemory.pubsub import InMemoryPubSub
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.wire.events import Event

__all__ = ()

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("url", "through"),
    [
        ("redis://u:p@db:1/3?x=1", "redis://u:p@127.0.0.1:7/3?x=1"),
        ("libsql+http://db:1", "libsql+http://127.0.0.1:7"),
        (
            "mongodb://db:1/app?replicaSet=rs0&w=1",
            "mongodb://127.0.0.1:7/app?w=1&directConnection=true",
        ),
        ("mongodb://db:1", "mongodb://127.0.0.1:7/?directConnection=true"),
    ],
)
def test_a_url_goes_through_another_port(url: str, through: str) -> None:
    """Everything else stays; drivers that look for servers themselves are told not to."""
    assert through == through_port(url, 7)
    assert ("db", 1) == address_of(url)


def test_urls_of_several_hosts_have_no_address() -> None:
    """A proxy stands before one."""
    for url in ("mongodb://a:1,b:2/x", "redis://a/x"):
        with pytest.raises(ValueError, match="one host and port"):
            address_of(url)


def test_options_and_scheme_come_from_the_adapter() -> None:
    """The rest is our server's."""
    asked = as_asked("libsql+http://127.0.0.1:5", "libsql+ws://db:1?mastra_prefix=p&x=1")
    assert "libsql+ws://127.0.0.1:5?mastra_prefix=p" == asked
    assert f"{asked}&mastra_a=1" == with_options(asked, a=1)
    assert "file:x?mastra_a=1" == with_options("file:x", a=1)


def test_a_server_is_found_by_url_or_name() -> None:
    """Or by import string, for the adapters of others."""
    found = product_for("postgresql://db/app", None)
    assert found is not None
    assert "postgres" == found.name
    named = product_for("", "redis@6.2")
    assert named is not None
    assert ("redis", "6.2") == (named.name, named.version)
    assert product_for("memory:", None) is None
    for wanted in ("nothing", "no.such:THING", "pathlib:Path"):
        with pytest.raises(LookupError):
            product_for("", wanted)


def test_timeouts_of_an_adapter_are_found() -> None:
    """By the names of its options."""
    spec = find_subject("memory:").spec("pubsub")
    assert {} == quick_options(spec)
    assert knows_option(spec, "ack_wait_ms")
    assert not knows_option(spec, "nothing")


async def test_a_sweep_cancels_at_every_wait() -> None:
    """At the first, the second, the third; and then not at all."""
    reached: list[int] = []

    async def call() -> None:
        for number in range(3):
            reached.append(number)
            await asyncio.sleep(0)
        reached.append(3)

    outcomes = [
        (place, type(error).__name__)
        async for place, error in cancelled_at_every_wait(lambda _: as_coroutine(call), limit_s=5)
    ]

    assert [
        (1, "CancelledError"),
        (2, "CancelledError"),
        (3, "CancelledError"),
        (4, "NoneType"),
    ] == outcomes
    assert [0, 0, 1, 0, 1, 2, 0, 1, 2, 3] == reached


async def test_a_sweep_notices_who_holds_something() -> None:
    """The lock of the cancelled run keeps the next one out."""
    lock = asyncio.Lock()

    async def call() -> None:
        await lock.acquire()
        await asyncio.sleep(0)
        lock.release()

    with pytest.raises(AssertionError, match="holds something"):
        async for _ in cancelled_at_every_wait(lambda _: as_coroutine(call), limit_s=0.05):
            pass


async def test_attempts_are_typed_and_in_time() -> None:
    """An answer, a typed error; all else is a fault."""

    async def answer() -> None:
        return

    async def refuse() -> None:
        raise StorageConnectionError("no")

    async def leak() -> None:
        raise ConnectionError("raw")

    async def hang() -> None:
        await asyncio.Event().wait()

    assert await attempt("storage", answer) is None
    assert isinstance(await attempt("storage", refuse), StorageConnectionError)
    with pytest.raises(AssertionError, match="ConnectionError came out"):
        await attempt("storage", leak)
    with pytest.raises(AssertionError, match="not done after"):
        await attempt("storage", hang, deadline_s=0.05)
    with pytest.raises(AssertionError, match="did not work again"):
        await recovers("storage", refuse, within_s=0.05)
    with pytest.raises(AssertionError, match="did not come"):
        await until(lambda: False, within_s=0.05)


async def test_the_ledger_finds_what_is_lost_and_torn() -> None:
    """Confirmed but missing, torn, and never written."""
    async with InMemoryStorage() as store:
        await store.memory.save_thread(thread("w"))
        await store.memory.save_messages([message("w-1-0", thread_id="w")])
        await store.memory.save_messages([message("w-7-0", thread_id="w")])
        ledger = Ledger(tried=[("w", 0), ("w", 1), ("w", 2)], acked={("w", 0)})
        faults = await check_ledger(store, ledger)
        await store.thread_state.set_state("c", "count", 5)
        counts = await check_counter(store, "c", Counter(tried=4, acked=2))

    assert [
        "w: batch 0 was confirmed, 0 rows are there.",
        "w: batch 1 is torn, 1 rows are there.",
        "w: batch 7 is there, but nobody wrote it.",
    ] == faults
    assert ["c is 5; 2 were confirmed, 4 tried."] == counts


def test_a_group_log_finds_what_is_lost_and_comes_again() -> None:
    """A second attempt is no fault; a second first one is."""
    log = GroupReaderLog(handled=[Handled(1, 1), Handled(1, 2), Handled(2, 1), Handled(2, 1)])
    log.acked = [1, 2]

    assert ["3 was lost.", "2 came again as attempt 1."] == log.faults([1, 2, 3])
    assert ["3 was lost."] == log.faults([1, 2, 3], after_crash=True)


@pytest.mark.parametrize(
    ("mischief", "expected"),
    [
        (Mischief.NONE, [0, 1, 2]),
        (Mischief.TWICE, [0, 0, 1, 1, 2, 2]),
        (Mischief.LOST, []),
        (Mischief.SWAPPED, [0, 1, 2]),
    ],
)
async def test_mischief_is_done(mischief: Mischief, expected: list[int]) -> None:
    """What the plan says, and it is counted."""
    seen: list[Any] = []
    async with InMemoryPubSub() as inner:
        bus = UnreliableBus(inner, random.Random(1), {mischief: 1.0})
        await bus.subscribe("t", lambda event: seen.append(event.data))
        for number in range(3):
            await bus.publish("t", Event(type="e", run_id="r", data=number))
        await bus.release()
        await inner.flush()

    assert expected == seen
    assert {mischief: 3} == dict(bus.done)


async def test_a_doubted_publish_raises_after_it_was_stored() -> None:
    """As a lost connection does."""
    async with InMemoryPubSub() as inner:
        bus = UnreliableBus(inner, random.Random(1), {Mischief.DOUBTED: 1.0})
        with pytest.raises(PubSubConnectionError):
            await bus.publish("t", Event(type="e", run_id="r", data=1))
        assert 1 == len(await inner.get_history("t"))


def test_an_older_version_comes_from_wheels(tmp_path: Path) -> None:
    """Unpacked, first on the path, with our workers beside it."""
    with zipfile.ZipFile(tmp_path / "mastra_core-0.0.9-py3-none-any.whl", "w") as wheel:
        wheel.writestr("mastra_core/__init__.py", "")
    with older_version(str(tmp_path)) as older:
        first = older.environment()["PYTHONPATH"].split(":")
        assert (older.paths[0] / "mastra_core" / "__init__.py").is_file()
        assert str(older.paths[0]) == first[0]
        assert older.has("mastra_core")
        assert not older.has("mastra_acme")
        assert (Path(first[1]) / "mastra_older_workers.py").is_file()
    assert "0.0.9" == older.name


def test_no_older_version_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason, and what would provide one."""
    with pytest.raises(NotRunError, match="no wheel"), older_version(str(tmp_path)):
        pass
    (tmp_path / "mastra_core").mkdir()
    (tmp_path / "mastra_core" / "__init__.py").touch()
    (tmp_path / "conformance_tests").mkdir()
    (tmp_path / "conformance_tests" / "pyproject.toml").touch()
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotRunError, match="no earlier release"), older_version(None):
        pass
    with pytest.raises(NotRunError, match="can't be had"), older_version("v0"):
        pass
