"""The main module of a second process: ``python -m mastra_conformance.processes.child``.

The first line on standard input says what to run and for which URL. Standard
output belongs to the line to the test, so prints of the worker go to standard error.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from importlib import import_module
from typing import Any

from mastra_conformance.opening import Opener
from mastra_conformance.processes.context import WorkerContext

__all__ = (
    "main",
    "run",
)


async def run() -> int:
    """Run one worker; 1 if it failed, after telling the test why."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as writer:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        order = json.loads(await reader.readline())
        context = WorkerContext(
            opener=Opener.from_json(order["opener"]),
            arguments=order["arguments"],
            reader=reader,
            writer=writer,
        )
        try:
            result = await _worker(order["function"])(context)
        except Exception as exc:  # noqa: BLE001 – the door of this process: the test wants every reason
            traceback.print_exc()
            context.send(error=type(exc).__name__, text=str(exc))
            return 1
        context.send(result=result)
        return 0


def main() -> None:
    """Run the worker and leave with its exit code."""
    sys.exit(asyncio.run(run()))


def _worker(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


if __name__ == "__main__":
    main()
