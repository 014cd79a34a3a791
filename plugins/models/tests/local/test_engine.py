"""The child process: what happens when it can't start, dies, or isn't wanted any more."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mastra_core.contracts.model import ModelRequest
from mastra_core.errors import ModelError
from mastra_models import LocalModel

pytestmark = pytest.mark.anyio

LONG = "Tell a very long story about a lighthouse."


async def test_a_file_that_is_no_model_is_said(ask: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF but not really")
    model = LocalModel(path, model_id="broken")

    with pytest.raises(ModelError, match=r"broken\.gguf.*can't be loaded") as caught:
        await ask(model)

    assert not caught.value.retryable
    await model.aclose()


async def test_a_child_that_dies_is_an_error_and_is_replaced(
    ask: Callable[..., Any], smollm2: Path
) -> None:
    model = LocalModel(smollm2, model_id="smollm2")
    await model.start()
    request = ModelRequest(
        prompt=[{"role": "user", "content": LONG}], settings={"maxOutputTokens": 2000}
    )

    async def listen_and_kill() -> None:
        async for part in model.stream(request):
            if part["type"] == "text-start":
                os.kill(child_of(model), signal.SIGKILL)

    with pytest.raises(ModelError, match="stopped") as caught:
        await listen_and_kill()

    assert caught.value.retryable
    assert "finish" == (await ask(model, settings={"maxOutputTokens": 3}))[-1]["type"]
    await model.aclose()


async def test_leaving_an_answer_frees_the_engine(
    ask: Callable[..., Any], local: LocalModel
) -> None:
    abort = asyncio.Event()
    request = ModelRequest(
        prompt=[{"role": "user", "content": LONG}],
        settings={"maxOutputTokens": 4000},
        abort=abort,
    )

    async for part in local.stream(request):
        if part["type"] == "text-delta":
            abort.set()

    async with asyncio.timeout(60):
        parts = await ask(local, settings={"maxOutputTokens": 3})
    assert "length" == parts[-1]["finishReason"]


async def test_the_event_loop_is_free_while_the_engine_computes(local: LocalModel) -> None:
    """Other work goes on between the parts, and before the first one."""
    turns = 0
    done = asyncio.Event()

    async def other_work() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(other_work())
        request = ModelRequest(
            prompt=[{"role": "user", "content": LONG}], settings={"maxOutputTokens": 20}
        )
        before_first = None
        async for _ in local.stream(request):
            before_first = turns if before_first is None else before_first
        done.set()

    assert before_first is not None
    assert before_first > 10


def test_the_child_ends_with_a_parent_that_is_killed(smollm2: Path) -> None:
    code = (
        "import asyncio, os, sys; from pathlib import Path; from mastra_models import LocalModel\n"
        "m = LocalModel(Path(sys.argv[1]), model_id='x'); asyncio.run(m.start())\n"
        "print(m._engine._child.process.pid, flush=True); os.kill(os.getpid(), 9)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, str(smollm2)], capture_output=True, text=True, check=False
    )

    assert -signal.SIGKILL == done.returncode
    wait_until_gone(int(done.stdout))


def wait_until_gone(pid: int) -> None:
    """Wait for the end of a process that isn't our child."""
    descriptor = open_pid(pid)
    if descriptor is None:
        return
    import select

    try:
        ended, _, _ = select.select([descriptor], [], [], 20)
    finally:
        os.close(descriptor)
    assert ended, "the engine outlived its parent"


def open_pid(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def child_of(model: LocalModel) -> int:
    # Private: which process to kill is nobody else's business.
    child = model._engine._child
    assert child is not None
    return child.process.pid
