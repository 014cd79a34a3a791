"""One JSON document in a file, which many may read and one at a time may change."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from mastra_core.base import jsonjs
from mastra_core.errors import (
    MastraError,
    StorageConnectionError,
    StorageDataError,
    StorageError,
    StorageSchemaError,
    StorageTimeoutError,
)
from mastra_core.wire.base import WireModel

__all__ = ("Document", "JsonFile", "row_of")

T = TypeVar("T")

Document: TypeAlias = dict[str, Any]
"""``format``, ``writes``, and one member per kind of row."""

FORMAT: Final = 1
"""Version of the layout of the file; a newer file is refused, not guessed at."""

_PAUSE: Final = 0.002


class JsonFile:
    """
    The file and its lock.

    A reader sees the document as some writer left it, never half of it: a writer makes a
    new file and moves it over the old one. Writers of all processes take turns by a lock on
    a second file, so a change that reads first and writes afterwards is one atomic step.

    Args:
        path: Where it is; made with the first change.
        lock_timeout_ms: How long a writer waits for its turn.
    """

    def __init__(self, path: Path, *, lock_timeout_ms: int) -> None:
        self.path = path
        self._lock_path = path.with_name(f"{path.name}.lock")
        self._new_path = path.with_name(f"{path.name}.new")
        self._lock_timeout = lock_timeout_ms / 1000
        #: Waits for the disk, so that the event loop doesn't have to.
        self._worker: ThreadPoolExecutor | None = None

    def open(self) -> None:
        """Allow calls from now on."""
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="jsonfile")

    async def close(self) -> None:
        """Finish the calls that wait; every later one raises."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await asyncio.to_thread(worker.shutdown)

    async def read(self, operation: str, query: Callable[[Document], T]) -> T:
        """What ``query`` finds in the document."""
        return await self._run(operation, lambda: query(self._load()))

    async def write(self, operation: str, change: Callable[[Document], T]) -> T:
        """
        Change the document in one atomic step; returns what ``change`` returns.

        If ``change`` raises, nothing is written. If the caller is cancelled, the step is
        carried out whole or not at all.
        """

        def step() -> T:
            with self._locked():
                document = self._load()
                result = change(document)
                document["writes"] += 1
                self._save(document)
            return result

        return await self._run(operation, step)

    async def _run(self, operation: str, step: Callable[[], T]) -> T:
        if self._worker is None:
            raise StorageConnectionError(
                f"The store in {str(self.path)!r} is closed, or was not opened yet.",
                hint="Use it inside `async with`.",
            )
        with storage_errors(operation, self.path):
            return await asyncio.get_running_loop().run_in_executor(self._worker, step)

    # -- in the worker thread ---------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Iterator[None]:
        deadline = time.monotonic() + self._lock_timeout
        with self._lock_path.open("a") as lock:
            while not _try_lock(lock.fileno()):
                if time.monotonic() > deadline:
                    raise StorageTimeoutError(
                        f"Somebody else kept {str(self.path)!r} locked for "
                        f"{self._lock_timeout:g} seconds; nothing was written."
                    )
                time.sleep(_PAUSE)
            yield  # closing the file unlocks it, as does the end of the process

    def _load(self) -> Document:
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return {
                "format": FORMAT,
                "writes": 0,
                "threads": {},
                "messages": {},
                "runs": {},
                "notifications": {},
            }
        document: Document = jsonjs.decode(text)
        found = document.get("format") if isinstance(document, dict) else None
        if not isinstance(found, int):
            raise StorageDataError(f"{str(self.path)!r} is a JSON file, but none of ours.")
        if found > FORMAT:
            raise StorageSchemaError(
                f"{str(self.path)!r} has format {found}; this version knows {FORMAT}.",
                hint="Install the version that wrote it.",
            )
        return document

    def _save(self, document: Document) -> None:
        text = jsonjs.encode_bytes(document)
        with self._new_path.open("wb") as new:
            new.write(text)
            new.flush()
            os.fsync(new.fileno())  # else a power cut could leave an empty file in its place
        self._new_path.replace(self.path)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def storage_errors(operation: str, path: Path) -> Iterator[None]:
    """Run one operation; let nothing out but errors with a name."""
    try:
        yield
    except MastraError:
        raise
    except Exception as exc:
        raise StorageError(
            f"The store in {str(path)!r} failed during {operation}: {exc}",
            id=f"MASTRA_STORAGE_JSONFILE_{operation.upper()}_FAILED",
        ) from exc


def row_of(model: WireModel) -> dict[str, Any]:
    """
    The model as it is stored: plain JSON values under wire names, shared with nobody.

    Raises:
        WireEncodeError: Something in it has no JSON form.
    """
    row: dict[str, Any] = jsonjs.sanitize_copy(model.model_dump(by_alias=True, exclude_unset=True))
    return row
