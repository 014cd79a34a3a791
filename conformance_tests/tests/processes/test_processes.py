"""Second processes: results, meeting points, deaths."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

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
