"""A worker of the demo as its parent sees it: started, heard, told, killed."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from typing import IO, Any, Final, Self

from mastra_core.errors import MastraError, error_from_wire

__all__ = ("Child", "WorkerDiedError")

#: A line of a worker holds at most one suspended run.
_MAX_LINE_BYTES: Final = 4 * 1024 * 1024
_TAIL_BYTES: Final = 600


class WorkerDiedError(MastraError):
    """A worker ended before it had done its part."""

    id = "MASTRA_DEMO_WORKER_DIED"
    category = "SYSTEM"


class Child:
    """
    One worker process; ``async with`` starts it, and kills it if it still runs at the end.

    Args:
        module: Whose ``main`` it runs.
        arguments: What it is started with.
    """

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        self._command = ["-P", "-m", module, *arguments]
        self._process: asyncio.subprocess.Process | None = None
        self._stderr: IO[bytes] | None = None

    @property
    def process(self) -> asyncio.subprocess.Process:
        """The running process."""
        assert self._process is not None, "used outside 'async with'"
        return self._process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    async def __aenter__(self) -> Self:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __aexit__
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._stderr,
            limit=_MAX_LINE_BYTES,
            # Ctrl-C is for the parent, which then ends its workers itself.
            start_new_session=True,
        )
        return self

    async def __aexit__(self, *_exc_info: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        if self._stderr is not None:
            self._stderr.close()

    async def events(self) -> AsyncGenerator[dict[str, Any], None]:
        """
        What the worker tells, until it ends well or is killed by us.

        Raises:
            MastraError: What the worker failed with.
            WorkerDiedError: It ended without a word.
        """
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            event = json.loads(line)
            if event["event"] == "failed":
                error = error_from_wire(event["error"])
                error.hint = event.get("hint")
                raise error
            yield event
        if await self.process.wait() != 0:
            raise WorkerDiedError(
                f"A worker of the demo ended with status {self.process.returncode}: "
                f"{self._last_words()}"
            )

    async def tell(self, line: str) -> None:
        """One line to the worker."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        await self.process.stdin.drain()

    async def kill(self) -> int:
        """End it without warning, as a crash would; returns how it ended."""
        self.process.send_signal(signal.SIGKILL)
        return await self.process.wait()

    def _last_words(self) -> str:
        if self._stderr is None:
            return "it said nothing"
        size = self._stderr.seek(0, 2)
        self._stderr.seek(max(0, size - _TAIL_BYTES))
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"
