"""
An application with one agent, and the same in a second process that does what it is told.

The agent's model costs nothing. It may be told to stand in the middle of its answer, so that a
thread stays busy as long as somebody needs that.

As a program it reads a line of JSON for each thing to do and writes one when that is done.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

from mastra_core import Agent, Mastra
from mastra_core.wire.events import Event

__all__ = ("Application", "Worker", "open_application", "open_worker")

_PATIENCE_S: Final = 600
_LOOK_S: Final = 0.002


class StandingModel:
    """Says a word, stands there while it is told to, and ends."""

    provider = "bench"
    model_id = "standing"

    def __init__(self) -> None:
        self._stands = asyncio.Event()
        self._goes = asyncio.Event()
        self._goes.set()

    def stand(self) -> None:
        """Stay in the middle of the next answer."""
        self._stands.clear()
        self._goes.clear()

    def go_on(self) -> None:
        """Let answers end, this one and those that follow."""
        self._goes.set()

    async def standing(self) -> None:
        """Wait until there is a first word."""
        await self._stands.wait()

    async def stream(self, request: Any) -> AsyncIterator[dict[str, Any]]:
        """The answer; others have one turn before it."""
        del request
        await asyncio.sleep(0)
        yield {"type": "stream-start", "warnings": []}
        yield {"type": "text-start", "id": "t"}
        yield {"type": "text-delta", "id": "t", "delta": "word "}
        self._stands.set()
        await self._goes.wait()
        yield {"type": "text-end", "id": "t"}
        usage = {"inputTokens": 10, "outputTokens": 1, "totalTokens": 11}
        yield {"type": "finish", "finishReason": "stop", "usage": usage}


class Application:
    """One process's part of what shares the threads."""

    def __init__(self, mastra: Mastra, agent: Agent, model: StandingModel) -> None:
        self.mastra = mastra
        self.agent = agent
        self.model = model

    async def send(self, thread: Mapping[str, str]) -> Any:
        """A message, until it is accepted."""
        return await self.agent.send_message("Is the deployment done?", **thread).accepted

    async def make_busy(self, thread: Mapping[str, str]) -> None:
        """A run on the thread that stands in the middle of its answer."""
        self.model.stand()
        await self.send(thread)
        await self.model.standing()

    async def rest(self) -> None:
        """Until everything is answered: no thread is ours any more."""
        async with asyncio.timeout(_PATIENCE_S):
            while self._threads():  # noqa: ASYNC110 - the last of many has no event
                await asyncio.sleep(_LOOK_S)

    def _threads(self) -> int:
        counts = self.mastra.threads.counts()
        return counts.get("leases", counts["threads"])


@asynccontextmanager
async def open_application(storage: Any, bus: Any, lease: Any) -> AsyncIterator[Application]:
    """The application at these URLs or with these backends."""
    model = StandingModel()
    agent = Agent(id="bench", instructions="Answer.", model=model)
    async with Mastra(
        storage=storage,
        pubsub=bus,
        lease=lease,
        agents=[agent],
        threads={"max_waiting_signals": 100_000},
    ) as mastra:
        yield Application(mastra, agent, model)


class Worker:
    """The second process, from the first one's side."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._requests = process.stdin
        self._answers = process.stdout

    def ask(self, what: str, **arguments: Any) -> None:
        """Have it do something; ``done`` tells when that is done."""
        self._requests.write(json.dumps({"what": what, **arguments}).encode() + b"\n")

    async def done(self) -> None:
        """Wait until the next of what was asked is done."""
        async with asyncio.timeout(_PATIENCE_S):
            if not await self._answers.readline():
                raise RuntimeError("The second process has ended; what it wrote stands above.")


@asynccontextmanager
async def open_worker(store_url: str, bus_url: str) -> AsyncIterator[Worker]:
    """A second process with the same application."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(Path(__file__)), store_url, bus_url,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    worker = Worker(process)
    try:
        await worker.done()
        yield worker
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def _work(store_url: str, bus_url: str) -> None:
    """Do what the lines say, until there are none."""
    requests = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(requests), sys.stdin
    )
    numbers = count()
    async with open_application(store_url, bus_url, bus_url) as here:
        _tell_done()
        while line := await requests.readline():
            request = json.loads(line)
            match request.pop("what"):
                case "publish":
                    event = Event(type="x", run_id="r", data={"n": next(numbers)})
                    await here.mastra.pubsub.publish(request["topic"], event)
                case "answer":
                    await here.send(request)
                    await here.rest()
                case "make busy":
                    await here.make_busy(request)
                case "go on":
                    here.model.go_on()
                    await here.rest()
            _tell_done()


def _tell_done() -> None:
    print(flush=True)


if __name__ == "__main__":
    asyncio.run(_work(*sys.argv[1:]))
