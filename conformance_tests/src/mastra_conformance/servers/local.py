"""A server of our own: started on a free loopback port, stopped with all its children."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, cast

from mastra_conformance.servers.account import (
    SAME_ACCOUNT,
    Account,
    account_for,
    reachable_binary,
)
from mastra_conformance.servers.family import signal_family, wait_until_gone
from mastra_conformance.servers.product import Found, Product

__all__ = (
    "START_SECONDS",
    "STOP_SECONDS",
    "RunningServer",
    "ServerFailedError",
    "free_port",
    "start_server",
)

START_SECONDS = 60.0
"""How long a server may take until it answers."""

STOP_SECONDS = 20.0
"""How long it may take to end before it is killed."""

_POLL_SECONDS = 0.05
_KEPT_OUTPUT = 4000


class ServerFailedError(RuntimeError):
    """The server didn't come up; its last output is in the message."""


@dataclass(slots=True, kw_only=True)
class RunningServer:
    """
    A server that answers; one of ours can be stopped, killed, paused and started again.

    Port, data folder and so the URL stay the same all the time. All methods wait until
    what they do is done; call them from a thread where an event loop must go on.
    """

    product: Product
    url: str
    #: None when somebody else runs it.
    port: int | None = None
    folder: Path | None = None
    binary: Path | None = None
    #: As the binary tells it; empty when somebody else runs it.
    version: str = ""
    #: More arguments for the binary.
    arguments: tuple[str, ...] = ()
    account: Account = SAME_ACCOUNT
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def is_ours(self) -> bool:
        """Whether it was started here, and may be stopped here."""
        return self.binary is not None

    @property
    def is_running(self) -> bool:
        """Whether a server of ours has a process, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """Process id of a server of ours."""
        return self._process.pid if self._process is not None else None

    @property
    def data(self) -> Path:
        """The data folder of a server of ours."""
        return self._own_folder() / "data"

    def output(self) -> str:
        """The last things that it printed, for a failure message."""
        if self.folder is None:
            return ""
        log = self.folder / "output.log"
        return log.read_text("utf-8", "replace")[-_KEPT_OUTPUT:] if log.exists() else ""

    def start(self) -> None:
        """
        Start it and wait until it answers; nothing happens if it runs.

        Raises:
            ServerFailedError: It ended, or didn't answer in time.
        """
        self._own_folder()
        if self.is_running:
            return
        if not self.data.exists():
            self._prepare()
        self._process = self._popen([str(self.binary), *self._all_arguments()])
        _wait_until_it_answers(self)

    def stop(self) -> None:
        """End it cleanly; a second call does nothing."""
        self._own_folder()
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            signal_family(process.pid, signal.SIGCONT)
            process.send_signal(self.product.stop_signal)
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
        _kill(process)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._own_folder()
        process, self._process = self._process, None
        if process is not None:
            _kill(process)

    def pause(self) -> None:
        """Freeze all its processes: connections stay open, nobody answers."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after ``pause``."""
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server and its children."""
        self._own_folder()
        if self._process is not None:
            signal_family(self._process.pid, number)

    def restart(self, *, immediate: bool = False) -> None:
        """Stop it, cleanly or at once, and start it again on the same port and data."""
        if immediate:
            self.kill()
        else:
            self.stop()
        self.start()

    def _own_folder(self) -> Path:
        if self.folder is None or self.binary is None or self.port is None:
            raise ServerFailedError(f"{self.url} isn't ours to start or stop.")
        return self.folder

    def _all_arguments(self) -> Sequence[str]:
        assert self.port is not None
        return (*self.product.arguments(self.port, self.data), *self.arguments)

    def _prepare(self) -> None:
        assert self.folder is not None
        assert self.binary is not None
        self.data.mkdir(mode=0o700)
        self.account.own(self.folder)
        if self.product.prepare is not None:
            self.product.prepare(self._run, self.binary, self.data)
            self.account.own(self.data)

    def _run(self, command: Sequence[str]) -> None:
        code = self._popen(command).wait(START_SECONDS)
        if code != 0:
            raise ServerFailedError(f"{command[0]} ended with code {code}:\n{self.output()}")

    def _popen(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        folder = self._own_folder()
        with (folder / "output.log").open("ab") as log:
            options = cast("dict[str, Any]", self.account.options)
            process: subprocess.Popen[Any] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,
                **options,
            )
            return process


@contextmanager
def start_server(
    product: Product, found: Found, *, arguments: Sequence[str] = ()
) -> Iterator[RunningServer]:
    """
    A server for the length of the block, in a temporary folder.

    ``arguments`` come after those of the product, such as ``("-c", "max_connections=5")``.

    Raises:
        ServerFailedError: It ended, or didn't answer in time.
    """
    if found.url is not None:
        yield RunningServer(product=product, url=found.url)
        return
    if found.binary is None:
        raise ServerFailedError(f"There is no binary of {product.name}.")
    folder = Path(tempfile.mkdtemp(prefix=f"mastra-{product.name}-"))
    try:
        account = account_for(product)
        port = free_port()
        server = RunningServer(
            product=product,
            url=product.url(port),
            port=port,
            folder=folder,
            binary=reachable_binary(found, account, folder),
            version=found.version,
            arguments=tuple(arguments),
            account=account,
        )
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A loopback port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a server and its children."""
    if process.poll() is None:
        family = signal_family(process.pid, signal.SIGKILL)
        process.wait()
        wait_until_gone(family, seconds=STOP_SECONDS)
        return
    # Children can outlive their eldest.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


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
    if server.product.ready is not None:
        return server.product.ready(server.port)
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
