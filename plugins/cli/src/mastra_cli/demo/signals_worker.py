"""One of two processes that share a thread: ``python -m mastra_cli.demo.signals_worker``.

It tells its parent what happens, one JSON object a line on stdout, and sends what it is told on
stdin: ``send TEXT``. An empty line ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mastra_cli.demo.lines import tell, told
from mastra_cli.demo.typist import Typist
from mastra_core import Agent, Mastra
from mastra_core.errors import MastraError, wire_from_error
from mastra_core.threads.subscription import ThreadSubscription

__all__ = ("AGENT_ID", "RESOURCE_ID", "main")

AGENT_ID = "assistant"
RESOURCE_ID = "demo"
#: Short, so that nobody waits long for the end of a dead process.
_LEASE_TTL_MS = 3_000


async def _work(options: argparse.Namespace) -> None:
    agent = Agent(id=AGENT_ID, model=Typist(options.name, pause=options.pause), memory=True)
    async with Mastra(
        storage=options.url,
        pubsub=options.url,
        lease=options.url,
        agents=[agent],
        notifications={"enabled": False},
        threads={"lease_ttl_ms": _LEASE_TTL_MS},
    ):
        reader = await agent.subscribe_to_thread(thread_id=options.thread, resource_id=RESOURCE_ID)
        reading = asyncio.create_task(_read(reader))
        tell("ready")
        try:
            while line := await told():
                await _send(agent, options.thread, line.removeprefix("send "))
        finally:
            reader.unsubscribe()
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading


async def _send(agent: Agent, thread: str, text: str) -> None:
    sent = agent.send_message(text, thread_id=thread, resource_id=RESOURCE_ID)
    accepted = await sent.accepted
    tell("accepted", text=text, action=accepted.action, runId=accepted.run_id)


async def _read(reader: ThreadSubscription) -> None:
    """Everything that is said on the thread, in whichever process."""
    async for chunk in reader.stream:
        _tell_chunk(chunk)


def _tell_chunk(chunk: Mapping[str, Any]) -> None:
    payload = chunk.get("payload") or {}
    run_id = chunk.get("runId")
    match chunk.get("type"):
        case "start":
            tell("start", runId=run_id)
        case "text-delta":
            tell("text", runId=run_id, text=payload.get("text", ""))
        case "text-end":
            tell("text-end", runId=run_id)
        case "data-user-message":
            tell("signal", runId=run_id, text=str((chunk.get("data") or {}).get("contents")))
        case "finish":
            tell("finish", runId=run_id)
        case "error":
            tell("error", runId=run_id, text=str(payload.get("error")))
        case _:
            return


def main() -> None:
    """Share the thread until told to stop; an error ends it with a line that says so."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--thread", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--pause", type=float, default=0.3)
    options = parser.parse_args()
    tell("started", pid=os.getpid())
    try:
        asyncio.run(_work(options))
    except MastraError as exc:
        tell("failed", error=wire_from_error(exc), hint=exc.hint)
        sys.exit(1)


if __name__ == "__main__":
    main()
