"""Second processes: results, meeting points, deaths."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from mastra_conformance.imports import child_environment
from mastra_conformance.opening import Opener, place_for
from mastra_conformance.processes import Processes, WorkerDiedError, WorkerFailedError
from mastra_conformance.subject import find_subject

__all__ = ()

pytestmark = pytest.mark.anyio

WORKERS = "mastra_conformance_test_workers"


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Processes:
    source = Path(__file__).with_name("workers.py").read_text("utf-8")
    (tmp_path / f"{WORKERS}.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    subject = find_subject("memory:")
    place = place_for(subject, namespace="n", table_namespace="t")
    return Processes(Opener(subject=subject, place=place))


async def test_a_worker_gets_arguments_and_returns_a_result(processes: Processes) -> None:
    """JSON values both ways, whatever the worker prints."""
    async with processes.start(f"{WORKERS}:add", a=2, b=40) as worker:
        assert await worker.result() == 42


async def test_a_worker_waits_at_named_points(processes: Processes) -> None:
    """It tells where it is and gets a value to go on with."""
    async with processes.start(f"{WORKERS}:meet") as worker:
        told = await worker.reached("first")
        assert told == {"pid": worker.pid}
        await worker.go("go on")
        await worker.reached("second")
        await worker.go()
        assert await worker.result() == ["go on", None]


async def test_another_point_than_expected_is_a_failure(processes: Processes) -> None:
    """The test says where the worker was instead."""
    async with processes.start(f"{WORKERS}:meet") as worker:
        with pytest.raises(AssertionError, match="at 'second', but it said"):
            await worker.reached("second")


async def test_an_exception_of_the_worker_reaches_the_test(processes: Processes) -> None:
    """With its class and its text."""
    async with processes.start(f"{WORKERS}:fail") as worker:
        with pytest.raises(WorkerFailedError, match="LookupError: nothing here"):
            await worker.result()


async def test_a_worker_that_dies_is_noticed(processes: Processes) -> None:
    """No result, but the exit code."""
    async with processes.start(f"{WORKERS}:vanish") as worker:
        with pytest.raises(WorkerDiedError, match="code 9"):
            await worker.result()


async def test_no_worker_outlives_its_block(processes: Processes) -> None:
    """Killed by hand, paused, or simply left: it is gone afterwards."""
    async with processes.start(f"{WORKERS}:wait") as worker:
        await worker.reached("waiting")
        await worker.kill()
        with pytest.raises(ProcessLookupError):
            os.kill(worker.pid, 0)

    async with asyncio.timeout(60), processes.start(f"{WORKERS}:wait") as worker:
        await worker.reached("waiting")
        worker.pause()
        worker.resume()
        worker.pause()
    with pytest.raises(ProcessLookupError):
        os.kill(worker.pid, 0)


async def _where(processes: Processes) -> dict[str, object]:
    async with processes.start(f"{WORKERS}:where") as worker:
        found: dict[str, object] = await worker.result()
    return found


async def test_workers_are_forked_from_one_process(processes: Processes) -> None:
    """What they need is imported once; each has a process of its own all the same."""
    one, other = await _where(processes), await _where(processes)
    assert one["parent"] == other["parent"] != os.getpid()
    assert one["pid"] != other["pid"]


async def test_workers_see_the_environment_of_now(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the one of the first of them."""
    assert (await _where(processes))["mark"] is None
    monkeypatch.setenv("TEST_MARK", "of now")
    assert (await _where(processes))["mark"] == "of now"


async def test_a_dead_forker_is_replaced(processes: Processes) -> None:
    """Somebody may end all interpreters that look idle."""
    before = await _where(processes)
    os.kill(int(str(before["parent"])), signal.SIGKILL)
    await asyncio.sleep(0.1)
    assert (await _where(processes))["parent"] != before["parent"]


async def test_a_worker_can_have_an_environment_of_its_own(processes: Processes) -> None:
    """Then an interpreter starts anew, as one of another version of a library must."""
    environment = {**child_environment(), "TEST_MARK": "its own"}
    async with processes.start(f"{WORKERS}:where", environment) as worker:
        found = await worker.result()
    assert found["mark"] == "its own"
    assert found["parent"] == os.getpid()
