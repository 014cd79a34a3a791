"""What the function that runs in a second process gets."""

from __future__ import annotations

import json
import signal
import threading
import time
from asyncio import StreamReader
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, TextIO

from mastra_conformance.opening import Opener
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.contracts.pubsub import PubSub
from mastra_core.contracts.storage import Storage

__all__ = ("WorkerContext",)

#: Seconds in which a write that was handed to a thread has ended.
_LAST_WRITES: Final = 0.2
#: Seconds after which nobody will resume us any more.
_LONGEST_STAND: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext:
    """The adapter under test as a second process sees it, and a line to the test.

    A worker is ``async def work(context: WorkerContext) -> <JSON value>`` in a module
    that can be imported; what it returns is the result of ``Worker.result()``.
    """

    opener: Opener
    #: The keyword arguments of ``Processes.start``.
    arguments: Mapping[str, Any]
    reader: StreamReader
    writer: TextIO

    def open_store(self) -> AbstractAsyncContextManager[Storage]:
        """The test's own data, opened here."""
        return self.opener.storage()

    def open_pubsub(self) -> AbstractAsyncContextManager[PubSub]:
        """The test's own topics, opened here."""
        return self.opener.pubsub()

    def open_lease(self) -> AbstractAsyncContextManager[LeaseProvider]:
        """The test's own leases, opened here."""
        return self.opener.lease()

    async def reach(self, point: str, value: object = None) -> Any:
        """
        Tell the test that this point is reached, and wait until it says go.

        Returns:
            What the test passed to ``Worker.go``.

        Raises:
            EOFError: The test is gone.
        """
        self.send(point=point, value=value)
        line = await self.reader.readline()
        if not line:
            raise EOFError("The test is gone.")
        return json.loads(line)["go"]

    def stand_still(self, point: str) -> None:
        """
        Tell the test that this point is reached, and do nothing at all until it has paused and
        resumed this process.

        The event loop stands, and what threads were still writing is written by then: a
        process that is paused inside a transaction would keep everybody out.
        """
        resumed = threading.Event()
        signal.signal(signal.SIGCONT, lambda *_: resumed.set())
        time.sleep(_LAST_WRITES)
        self.send(point=point, value=None)
        end = time.monotonic() + _LONGEST_STAND
        while not resumed.is_set() and time.monotonic() < end:
            time.sleep(0.005)

    def send(self, **message: object) -> None:
        """Write one message to the test; doesn't wait for anything."""
        self.writer.write(json.dumps(message) + "\n")
        self.writer.flush()
