"""How a second process comes to be: forked from one that has imported everything, or anew."""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

from mastra_conformance.imports import child_environment
from mastra_conformance.processes.forker import FORK

__all__ = ("SecondProcess", "executed", "forked")

_LINE_LIMIT: Final = 2**24
_OURS: Final = "mastra_"
#: Test modules; only pytest can import them.
_TESTS: Final = "mastra_conformance.cases_"
_FORKER: Final = "from mastra_conformance.processes.forker import main; main()"
_STDERR: Final = 2
#: Says which test runs and so changes with each; no worker reads it.
_OF_EACH_TEST: Final = "PYTEST_CURRENT_TEST"


class SecondProcess(Protocol):
    """What both kinds offer, as the processes of asyncio do."""

    @property
    def pid(self) -> int: ...

    @property
    def stdin(self) -> StreamWriter | None: ...

    @property
    def stdout(self) -> StreamReader | None: ...

    @property
    def returncode(self) -> int | None: ...

    def kill(self) -> None: ...

    async def wait(self) -> int: ...


@asynccontextmanager
async def executed(environment: Mapping[str, str]) -> AsyncIterator[SecondProcess]:
    """A new interpreter in an environment of its own; gone afterwards."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mastra_conformance.processes.child"),
        stdin=PIPE,
        stdout=PIPE,
        env=environment,
        limit=_LINE_LIMIT,
    )
    try:
        yield process
    finally:
        await _end(process)
        # Let go of the pipes, so that nothing is left for the garbage collector to complain.
        if process.stdin is not None:
            process.stdin.close()
        process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 – asyncio has no public way


@asynccontextmanager
async def forked() -> AsyncIterator[SecondProcess]:
    """A process that has imported what this one has of ours; gone afterwards."""
    sockets = [socket.socketpair() for _ in range(3)]
    (stdin, stdin_there), (stdout, stdout_there), (end, end_there) = sockets
    there = (stdin_there, stdout_there, end_there)
    try:
        _ask_for_child(stdin_there, stdout_there, end_there)
    finally:
        for used in there:
            used.close()
    _, writer = await asyncio.open_unix_connection(sock=stdin)
    reader, to_close = await asyncio.open_unix_connection(sock=stdout, limit=_LINE_LIMIT)
    told, to_close_too = await asyncio.open_unix_connection(sock=end)
    process = _Forked(int(await told.readline()), writer, reader, told)
    try:
        yield process
    finally:
        await _end(process)
        for used_writer in (writer, to_close, to_close_too):
            used_writer.transport.abort()


class _Forked:
    """A child of the forker, which tells us when it has ended."""

    def __init__(
        self, pid: int, stdin: StreamWriter, stdout: StreamReader, told: StreamReader
    ) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.returncode: int | None = None
        self._told = told
        self._asking = asyncio.Lock()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    async def wait(self) -> int:
        async with self._asking:
            if self.returncode is None:
                self.returncode = int(await self._told.readline())
        return self.returncode


async def _end(process: SecondProcess) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)
            process.kill()
    await asyncio.shield(process.wait())


# -- the forker ---------------------------------------------------------------------------------


class _RunningForker:
    """A forker of ours; one is enough as long as the environment stays the same."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.control, there = socket.socketpair()
        with there:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _FORKER, str(there.fileno())],
                stdin=subprocess.PIPE,
                env=environment,
                pass_fds=[there.fileno()],
            )
        assert self._process.stdin is not None
        with self._process.stdin as modules:
            modules.write(json.dumps(_modules()).encode())

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """Let it end; what it has forked lives on."""
        self.control.close()
        self._process.wait()


_running: list[_RunningForker] = []


def _ask_for_child(stdin: socket.socket, stdout: socket.socket, end: socket.socket) -> None:
    environment = {k: v for k, v in child_environment().items() if k != _OF_EACH_TEST}
    if _running and not (_running[0].is_alive and _running[0].environment == environment):
        _close_forker()
    if not _running:
        _running.append(_RunningForker(environment))
    streams = [stdin.fileno(), stdout.fileno(), _STDERR, end.fileno()]
    socket.send_fds(_running[0].control, [FORK], streams)


@atexit.register
def _close_forker() -> None:
    while _running:
        _running.pop().close()


def _modules() -> list[str]:
    """What we have imported of ours, drivers included; each brings along what it needs."""
    return [n for n in sorted(sys.modules) if n.startswith(_OURS) and not n.startswith(_TESTS)]
