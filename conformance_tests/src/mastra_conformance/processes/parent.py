"""The test's side of a second process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from mastra_conformance.opening import Opener
from mastra_conformance.processes.starting import SecondProcess, executed, forked

__all__ = ("DEADLINE", "Processes", "Worker", "WorkerDiedError", "WorkerFailedError")

DEADLINE = 60.0
"""Seconds that a test waits for a point or a result of another process."""


class WorkerFailedError(AssertionError):
    """The function in the other process raised."""

    def __init__(self, error: str, text: str) -> None:
        super().__init__(f"The other process raised {error}: {text}")
        self.error = error


class WorkerDiedError(AssertionError):
    """The other process ended without a word."""


class Worker:
    """One running second process."""

    def __init__(self, process: SecondProcess) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def reached(self, point: str) -> Any:
        """
        Wait until the worker is at a named point; it waits there for ``go``.

        Returns:
            The value that the worker passed to ``reach``.
        """
        message = await self._next()
        if message.get("point") != point:
            raise AssertionError(f"Expected the worker at {point!r}, but it said {message!r}.")
        return message["value"]

    async def go(self, value: object = None) -> None:
        """Let the worker pass the point where it waits."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"go": value}).encode() + b"\n")
        await self._process.stdin.drain()

    async def result(self) -> Any:
        """Wait for what the worker returns."""
        message = await self._next()
        if "result" not in message:
            raise AssertionError(f"Expected a result, but the worker said {message!r}.")
        return message["result"]

    async def told(self, point: str) -> AsyncIterator[Any]:
        """
        What the worker tells under a name without waiting for an answer, up to its result.

        Raises:
            WorkerDiedError: It ended without a result; what it had told came before.
        """
        while "result" not in (message := await self._next()):
            if message.get("point") != point:
                raise AssertionError(f"Expected {point!r}, but the worker said {message!r}.")
            yield message["value"]

    async def heard(self) -> dict[str, Any]:
        """
        The next thing that the worker says: ``point`` and ``value``, or ``result``.

        Raises:
            WorkerDiedError: It ended without another word.
        """
        return await self._next()

    async def kill(self) -> None:
        """End it at once, as a crash would, and wait until it is gone."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    def pause(self) -> None:
        """Stop it where it stands, without its knowing."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        os.kill(self._process.pid, signal.SIGCONT)

    async def _next(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        async with asyncio.timeout(DEADLINE):
            line = await self._process.stdout.readline()
        if not line:
            code = await self._process.wait()
            raise WorkerDiedError(f"The other process ended with code {code} without a result.")
        message: dict[str, Any] = json.loads(line)
        if "error" in message:
            raise WorkerFailedError(message["error"], message["text"])
        return message


class Processes:
    """Starts second processes that open what the test has open."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener

    @asynccontextmanager
    async def start(
        self,
        function: str | Callable[..., Any],
        environment: Mapping[str, str] | None = None,
        **arguments: object,
    ) -> AsyncIterator[Worker]:
        """
        Run a worker in a process of its own; the process is gone afterwards.

        Args:
            function: The worker, itself or as ``module:function``; see ``WorkerContext``.
            environment: Of a new interpreter; None for a process that is forked from one which has
                imported what this one has, and is there at once.
            arguments: JSON values that the worker finds in its context.
        """
        name = (
            function
            if isinstance(function, str)
            else f"{function.__module__}:{function.__qualname__}"
        )
        order = {"opener": self._opener.to_json(), "function": name, "arguments": arguments}
        async with forked() if environment is None else executed(environment) as process:
            assert process.stdin is not None
            process.stdin.write(json.dumps(order).encode() + b"\n")
            await process.stdin.drain()
            yield Worker(process)
