"""The engine as seen from the event loop: a child process, asked and answered in lines.

A child of its own, because the engine computes for seconds, can't be stopped inside a
prompt, and takes its process down when it fails. It ends with us, even if we are killed:
then its input is closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final

from mastra_core.errors import DriverNotInstalledError, ModelError, ModelTimeoutError

__all__ = (
    "START_TIMEOUT_S",
    "STOP_TIMEOUT_S",
    "Engine",
    "EngineOptions",
    "usable_cores",
)

#: How long loading weights may take.
START_TIMEOUT_S: Final = 120.0
#: How long a child may take to end after its input was closed.
STOP_TIMEOUT_S: Final = 5.0

_STDERR_TAIL: Final = 2_000


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """What a child is started with."""

    model_path: Path
    #: Tokens of prompt and answer together.
    context_tokens: int
    threads: int


@dataclass(slots=True)
class _Listener:
    """Where the lines of one request go."""

    loop: asyncio.AbstractEventLoop
    lines: asyncio.Queue[Mapping[str, Any] | None]

    def tell(self, line: Mapping[str, Any] | None) -> None:
        # The loop may be gone when a line comes late; then nobody listens.
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.lines.put_nowait, line)


@dataclass(slots=True)
class _Child:
    """One running child and who listens to it."""

    process: subprocess.Popen[bytes]
    stderr: IO[bytes]
    key: str
    reader: threading.Thread | None = None
    started: Future[Mapping[str, Any]] = field(default_factory=Future)
    listeners: dict[int, _Listener] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    next_id: int = 1

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def send(self, message: Mapping[str, Any]) -> None:
        """One line to the child; raises ``OSError`` if it is gone."""
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self.lock:
            stdin = self.process.stdin
            if stdin is None or stdin.closed:
                raise BrokenPipeError("the engine was closed")
            stdin.write(data)
            stdin.flush()

    def read_lines(self) -> None:
        """Give every line to its listener until the child is gone (runs in a thread)."""
        stdout = self.process.stdout
        if stdout is None:
            return
        with stdout:
            for raw in stdout:
                line = json.loads(raw)
                if "id" in line:
                    listener = self.listeners.get(line["id"])
                    if listener is not None:
                        listener.tell(line)
                else:
                    self.started.set_result(line)
        self.process.wait()
        if not self.started.done():
            self.started.set_result({"failed": self.last_words()})
        for listener in tuple(self.listeners.values()):
            listener.tell(None)

    def last_words(self) -> str:
        """How the child ended, with the end of what it complained about."""
        if self.stderr.closed:
            return "it was closed"
        size = self.stderr.seek(0, os.SEEK_END)
        self.stderr.seek(max(0, size - _STDERR_TAIL))
        said = self.stderr.read().decode(errors="replace").strip()
        return f"exit status {self.process.returncode}" + (f": {said}" if said else "")


class Engine:
    """
    One model in one child process, started when it is first needed.

    Any number of requests may run, from any event loop; the child works on one at a time. A
    child that died is replaced at the next request.
    """

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self._child: _Child | None = None
        self._starting = threading.Lock()
        self._finalizer: weakref.finalize[Any, Engine] | None = None

    async def start(self) -> Mapping[str, Any]:
        """
        Load the weights, if that hasn't been done.

        Returns:
            ``address`` of the engine's OpenAI-protocol server on loopback, and its ``key``.

        Raises:
            DriverNotInstalledError: The engine isn't installed.
            ModelError: The weights can't be loaded.
            ModelTimeoutError: Loading took too long.
        """
        child = await asyncio.to_thread(self._running_child)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                line = await asyncio.shield(asyncio.wrap_future(child.started))
        except TimeoutError as exc:
            self.close()
            raise ModelTimeoutError(
                model=self.options.model_path.name, limit_ms=START_TIMEOUT_S * 1000
            ) from exc
        if "failed" in line:
            raise ModelError(
                f"The local model {self.options.model_path.name!r} can't be loaded: "
                f"{line['failed']}",
                id="MODEL_ENGINE_FAILED",
                details={"path": str(self.options.model_path)},
            )
        return {**line["ready"], "key": child.key}

    async def ask(self, body: Mapping[str, Any]) -> AsyncGenerator[Mapping[str, Any], None]:
        """
        The chunks of one chat completion; closing the iterator cancels it.

        Raises:
            ModelError: The engine died, or refused to start.
        """
        await self.start()
        child = self._child
        if child is None:
            raise self._died("it was closed")
        request_id, listener = self._listen(child)
        try:
            await asyncio.to_thread(child.send, {"id": request_id, "body": body})
            while (line := await listener.lines.get()) is not None:
                if line.get("end"):
                    return
                yield line["chunk"]
            raise self._died(child.last_words())
        except OSError as exc:
            raise self._died(str(exc)) from exc
        finally:
            child.listeners.pop(request_id, None)
            self._cancel(child, request_id)

    def _listen(self, child: _Child) -> tuple[int, _Listener]:
        # Bounded by the context: one line for each token that fits into it.
        lines: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()
        listener = _Listener(asyncio.get_running_loop(), lines)
        with child.lock:
            request_id, child.next_id = child.next_id, child.next_id + 1
            child.listeners[request_id] = listener
        return request_id, listener

    def _cancel(self, child: _Child, request_id: int) -> None:
        """Tell the child that nobody listens; it forgets ids that it has answered."""
        try:
            child.send({"cancel": request_id})
        except OSError:
            return  # It is gone, so there is nothing to cancel.

    def _died(self, how: str) -> ModelError:
        error = ModelError(
            f"The engine of the local model {self.options.model_path.name!r} stopped: {how}",
            id="MODEL_ENGINE_STOPPED",
        )
        error.retryable = True
        return error

    def _running_child(self) -> _Child:
        with self._starting:
            if self._child is None or not self._child.is_alive:
                self.close()
                self._child = _start_child(self.options)
                self._finalizer = weakref.finalize(self, _stop_child, self._child)
            return self._child

    def close(self) -> None:
        """End the child; the next request starts a new one."""
        finalizer, self._finalizer, self._child = self._finalizer, None, None
        if finalizer is not None:
            finalizer()

    async def aclose(self) -> None:
        """End the child without blocking the event loop."""
        await asyncio.to_thread(self.close)


def _start_child(options: EngineOptions) -> _Child:
    if find_spec("xllamacpp") is None:
        raise DriverNotInstalledError(
            distribution="mastra-models", driver="xllamacpp", extra="models-local"
        )
    key = secrets.token_urlsafe(24)
    stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
    arguments = {
        "--model": str(options.model_path),
        "--context": str(options.context_tokens),
        "--threads": str(options.threads),
    }
    process = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "mastra_models.local.child",
            *(item for pair in arguments.items() for item in pair),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, "MASTRA_LOCAL_MODEL_KEY": key},
        # A Ctrl-C in the terminal is for the parent; it ends the child by closing its input.
        start_new_session=True,
    )
    child = _Child(process=process, stderr=stderr, key=key)
    child.reader = threading.Thread(target=child.read_lines, name="local-model-lines", daemon=True)
    child.reader.start()
    return child


def _stop_child(child: _Child) -> None:
    """Close the input, so that the child ends; kill it if it doesn't."""
    process = child.process
    with child.lock:
        if process.stdin is not None and not process.stdin.closed:
            try:
                process.stdin.close()
            except BrokenPipeError:
                process.stdin = None
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if child.reader is not None:
        child.reader.join(STOP_TIMEOUT_S)
    child.stderr.close()
