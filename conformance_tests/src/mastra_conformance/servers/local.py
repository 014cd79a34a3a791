"""A server of our own: started on a free loopback port, stopped with all its children."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from mastra_conformance.servers.product import Found, Product

__all__ = (
    "START_SECONDS",
    "STOP_SECONDS",
    "RunningServer",
    "ServerFailedError",
    "free_port",
    "start_server",
)

START_SECONDS = 30.0
"""How long a server may take until it answers."""

STOP_SECONDS = 10.0
"""How long it may take to end before it is killed."""

_POLL_SECONDS = 0.05
_KEPT_OUTPUT = 4000


class ServerFailedError(RuntimeError):
    """The server didn't come up; its last output is in the message."""


@dataclass(slots=True, kw_only=True)
class RunningServer:
    """A server that answers."""

    product: Product
    url: str
    #: None when somebody else runs it.
    port: int | None = None
    folder: Path | None = None
    binary: Path | None = None
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def is_ours(self) -> bool:
        """Whether it was started here, and may be stopped here."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """Process id of a server of ours."""
        return self._process.pid if self._process is not None else None

    def output(self) -> str:
        """The last things that it printed, for a failure message."""
        if self.folder is None:
            return ""
        log = self.folder / "output.log"
        return log.read_text("utf-8", "replace")[-_KEPT_OUTPUT:] if log.exists() else ""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server and its children."""
        if self._process is None:
            raise ServerFailedError(f"{self.url} isn't ours to stop.")
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def stop(self) -> None:
        """End what was started; a second call does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        # The whole group, also when its leader is already gone.
        for number in (signal.SIGCONT, signal.SIGTERM):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def restart(self, *, immediate: bool = False) -> None:
        """Stop it, cleanly or at once, and start it again on the same port and data."""
        if self._process is None or self.folder is None or self.port is None:
            raise ServerFailedError(f"{self.url} isn't ours to restart.")
        if immediate:
            self.signal(signal.SIGKILL)
            self._process.wait()
        self.stop()
        self._process = _launch(self.product, self.binary, self.port, self.folder)
        _wait_until_it_answers(self)


@contextmanager
def start_server(product: Product, found: Found) -> Iterator[RunningServer]:
    """
    A server for the length of the block, in a temporary folder.

    Raises:
        ServerFailedError: It ended, or didn't answer in time.
    """
    if found.url is not None:
        yield RunningServer(product=product, url=found.url)
        return
    folder = Path(tempfile.mkdtemp(prefix=f"mastra-{product.name}-"))
    port = free_port()
    server = RunningServer(
        product=product, url=product.url(port), port=port, folder=folder, binary=found.binary
    )
    try:
        server._process = _launch(product, found.binary, port, folder)  # noqa: SLF001 – our own class
        _wait_until_it_answers(server)
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A loopback port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _launch(
    product: Product, binary: Path | None, port: int, folder: Path
) -> subprocess.Popen[bytes]:
    if binary is None:
        raise ServerFailedError(f"There is no binary of {product.name}.")
    data = folder / "data"
    data.mkdir(exist_ok=True)
    with (folder / "output.log").open("ab") as log:
        return subprocess.Popen(
            [str(binary), *product.arguments(port, data)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )


def _wait_until_it_answers(server: RunningServer) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        process = server._process  # noqa: SLF001 – our own class
        if process is not None and process.poll() is not None:
            raise ServerFailedError(
                f"{server.product.name} ended with code {process.returncode}:\n{server.output()}"
            )
        if _answers(server):
            return
        time.sleep(_POLL_SECONDS)
    raise ServerFailedError(
        f"{server.product.name} didn't answer within {START_SECONDS:g} s:\n{server.output()}"
    )


def _answers(server: RunningServer) -> bool:
    assert server.port is not None
    if server.product.health_path is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", server.port), timeout=1):
            return True
        return False
    connection = HTTPConnection("127.0.0.1", server.port, timeout=1)
    try:
        connection.request("GET", server.product.health_path)
        return connection.getresponse().status < 500
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
