"""How the processes of one host wake each other: a datagram, and a look for those that got lost.

Each process binds a socket in a folder beside the database, and whoever wrote sends the name
of what changed to each socket there. No broker, no election, nothing to repair: a socket that
refuses belongs to a dead process and is removed. A datagram may get lost, so a thread also
looks at ``PRAGMA data_version``, which changes with every commit of another connection.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import os
import secrets
import socket
import stat
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import apsw

from mastra_sql.bus import Hints, LocalDoorbell

__all__ = ("FileDoorbell", "bell_folder", "open_doorbell")

logger = logging.getLogger(__name__)

#: Longest path of a socket that every operating system takes.
_LONGEST_PATH: Final = 103
#: What a socket's name takes at most, with its slash.
_NAME_LENGTH: Final = 28
_MAX_DATAGRAM: Final = 4096
#: Some kernels keep only so many datagrams for a socket; after as many, some may be lost.
_FULL_QUEUE: Final = 10
_MOST_AT_ONCE: Final = 256

#: Seconds between two looks: while datagrams arrive, and where they don't.
_CALM: Final = 0.1
_EAGER: Final = 0.005
_TIRED: Final = 0.05
#: Without news for so long, an eager looker gets tired.
_PATIENCE: Final = 1.0
#: So long after news that no datagram told of, looks are frequent.
_SUSPICION: Final = 10.0
#: A folder that was changed so shortly before it was read may have changed again since.
_MTIME_GRAIN_NS: Final = 50_000_000


def bell_folder(database: str) -> Path:
    """Where the sockets of a database are: beside it, or in the temporary folder if that is
    too long for a socket's path."""
    beside = Path(f"{database}.bell")
    if len(os.fsencode(beside)) + _NAME_LENGTH <= _LONGEST_PATH:
        return beside
    digest = hashlib.sha256(os.fsencode(os.path.realpath(database))).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"mastra-{os.getuid()}-{digest}.bell"


class FileDoorbell(LocalDoorbell):
    """
    The doorbell of one database file for one event loop.

    Args:
        folder: Where the sockets are; None for looking only.
        probe: Opens a connection that is used for nothing but looking.
    """

    def __init__(self, folder: Path | None, probe: Callable[[], apsw.Connection]) -> None:
        super().__init__()
        self._folder = folder
        self._probe = probe
        self._socket: socket.socket | None = None
        self._path: Path | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        #: The sockets of others, as of a time of the folder.
        self._others: tuple[str, ...] = ()
        self._listed: tuple[int, int] = (-1, -1)
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._suspicious_until = 0.0
        self._news_at = 0.0

    @property
    def is_listening(self) -> bool:
        """Whether datagrams can reach this process."""
        return self._socket is not None

    def open(self) -> None:
        """Listen, and start looking."""
        self._loop = asyncio.get_running_loop()
        self._listen()
        self._thread = threading.Thread(target=self._look_forever, name="libsql-pulse", daemon=True)
        self._thread.start()

    async def aclose(self) -> None:
        """Take the socket away and stop looking."""
        self._stop.set()
        self._unlisten()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        if self._folder is not None:
            with suppress(OSError):
                self._folder.rmdir()

    # -- ringing ---------------------------------------------------------------------------

    def ring(self, name: str, but: Hints | None = None) -> None:
        self.tell(name, but)
        if self._socket is None:
            return
        datagram = name.encode("utf-8", "surrogatepass")
        for path in self._sockets_of_others():
            try:
                self._socket.sendto(datagram, path)
            except BlockingIOError:
                # It has so many to read that it will look at everything.
                continue
            except OSError as exc:
                if exc.errno == errno.ECONNREFUSED:
                    with suppress(OSError):
                        Path(path).unlink()
                self._listed = (-1, -1)

    def missed(self) -> None:
        """There was news that no datagram told of: look often for a while."""
        self._suspicious_until = time.monotonic() + _SUSPICION

    def _sockets_of_others(self) -> tuple[str, ...]:
        if self._folder is None:
            return ()
        try:
            changed = self._folder.stat().st_mtime_ns
        except OSError:
            return ()
        if self._listed[0] != changed or changed > self._listed[1] - _MTIME_GRAIN_NS:
            self._listed = (changed, time.time_ns())
            with suppress(OSError):
                self._others = tuple(self._list())
        return self._others

    def _list(self) -> Iterator[str]:
        own = self._path and self._path.name
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name != own:
                    yield entry.path

    # -- listening -------------------------------------------------------------------------

    def _listen(self) -> None:
        if self._folder is None or self._loop is None:
            return
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = self._folder / f"{os.getpid()}-{secrets.token_hex(4)}"
        try:
            _make_private(self._folder)
            bound.setblocking(False)
            bound.bind(os.fspath(path))
        except OSError as exc:
            bound.close()
            logger.info(
                "no doorbell, looking instead",
                extra={"folder": str(self._folder), "reason": str(exc)},
            )
            return
        self._socket, self._path = bound, path
        self._listed = (-1, -1)
        self._loop.add_reader(bound, self._heard)

    def _unlisten(self) -> None:
        bound, self._socket = self._socket, None
        if bound is not None and self._loop is not None:
            self._loop.remove_reader(bound)
            bound.close()
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()
            self._path = None

    def _listen_again(self) -> None:
        """Somebody took the socket away."""
        if not self._stop.is_set():
            self._unlisten()
            self._listen()
            self.tell_any()

    def _heard(self) -> None:
        bound = self._socket
        if bound is None:
            return
        for count in range(_MOST_AT_ONCE):
            try:
                datagram = bound.recv(_MAX_DATAGRAM)
            except OSError:
                if count >= _FULL_QUEUE:
                    self.tell_any()
                return
            self.tell(datagram.decode("utf-8", "replace"))
        self.tell_any()

    # -- looking ---------------------------------------------------------------------------

    def _look_forever(self) -> None:
        """The thread: every connection but this one changes the number that it reads."""
        try:
            connection = self._probe()
        except apsw.Error:
            logger.warning("can't look for changes", exc_info=True)
            return
        try:
            known = _version(connection)
            pause = _EAGER
            while not self._stop.wait(pause):
                version = _version(connection)
                if version is not None and version != known:
                    known = version
                    self._news_at = time.monotonic()
                    self._call(self._pulse)
                pause = self._pause(pause)
        finally:
            connection.close()

    def _pause(self, last: float) -> float:
        now = time.monotonic()
        if self._path is not None and now >= self._suspicious_until:
            if not self._path.exists():
                self._call(self._listen_again)
            return _CALM
        if now - self._news_at < _PATIENCE:
            return _EAGER
        return min(_TIRED, max(_EAGER, last) * 2)

    def _pulse(self) -> None:
        self.tell_any()

    def _call(self, work: Callable[[], None]) -> None:
        # A loop that is closed meanwhile has nobody left who listens.
        with suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(work)


def _version(connection: apsw.Connection) -> int | None:
    """The number; None if somebody keeps the file busy."""
    try:
        [(value,)] = connection.execute("PRAGMA data_version").fetchall()
    except apsw.Error:
        return None
    return value if isinstance(value, int) else None


def _make_private(folder: Path) -> None:
    """
    A folder that only this user can look into.

    Raises:
        PermissionError: It is there and belongs to somebody else.
    """
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(errno.EACCES, "not a private folder of this user", str(folder))


@asynccontextmanager
async def open_doorbell(
    folder: Path | None, probe: Callable[[], apsw.Connection]
) -> AsyncIterator[FileDoorbell]:
    """The doorbell of one file, for all users of one context."""
    bell = FileDoorbell(folder, probe)
    bell.open()
    try:
        yield bell
    finally:
        await bell.aclose()
