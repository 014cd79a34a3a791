"""How processes on one PostgreSQL server wake each other: LISTEN and NOTIFY.

One connection apart from the pool listens to exactly the topics and keys that somebody here
follows. A notification is sent after the write has been committed, in a transaction of its own:
committing one takes a lock of the whole server, which no other write shall wait for. One that
gets lost costs one look (pubsub_and_lease.md 8.3).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg import pq

from mastra_core.base.ids import Ids
from mastra_core.errors import StorageError
from mastra_postgres.client import PostgresClient
from mastra_sql.bus import Hints, LocalDoorbell
from mastra_sql.executor import Rows, Step
from mastra_sql.statement import plain

__all__ = ("PostgresDoorbell", "channel_of", "open_listener")

logger = logging.getLogger(__name__)

_NOTIFY: Final = plain(
    "SELECT pg_notify($1, $2)", parameters=("channel", "payload"), columns=("notified",)
)
#: By itself it needs no place on the disk, and so no wait for it.
_NOTIFY_ALONE: Final = plain(
    "SELECT pg_notify($1, $2), set_config('synchronous_commit', 'off', true)",
    parameters=("channel", "payload"),
    columns=("notified", "commit"),
)
#: Seconds between two signs of life, and how long one may take.
_ALIVE_EVERY: Final = 10.0
_ALIVE_WITHIN: Final = 5.0
#: Seconds after which a listener that goes on is told again to end.
_CANCEL_AGAIN: Final = 0.1
#: How long the first notification to ourselves may take; poolers swallow it.
_PROBE_WITHIN: Final = 2.0
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
#: With a pooler in between, listening is tried again so seldom.
_POOLED_PAUSE: Final = 60.0
#: Channels in one statement.
_AT_ONCE: Final = 200


def channel_of(schema: str, name: str) -> str:
    """The channel of a topic (``t:…``) or a lease key (``l:…``); names of channels are short."""
    kind, _, rest = name.partition(":")
    digest = hashlib.sha256(f"{schema}:{rest}".encode()).hexdigest()[:32]
    return f"{'mps' if kind == 't' else 'mls'}_{digest}"


class PostgresDoorbell(LocalDoorbell):
    """
    The doorbell of one database for one event loop.

    Args:
        client: Sends notifications and opens the listening connection.
        schema: Schema and prefix of the tables; other places have other channels.
        ids: Makes the name of this listener, which ignores its own notifications.
    """

    def __init__(self, client: PostgresClient, schema: str, ids: Ids) -> None:
        super().__init__()
        self._client = client
        self._schema = schema
        self._own = ids.new("listener")
        self._connection: psycopg.AsyncConnection[Any] | None = None
        #: Of the socket that is looked at; None while nobody looks.
        self._fd: int | None = None
        self._using = asyncio.Lock()
        #: Channels that somebody here follows, and those that the connection listens to.
        self._names: dict[str, str] = {}
        self._listened: set[str] = set()
        self._probed = asyncio.Event()
        self._lost = asyncio.Event()
        #: Names with a notification on its way: whether another one has to follow.
        self._ringing: dict[str, bool] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._keeping: asyncio.Task[None] | None = None
        self._has_warned = False

    @property
    def is_listening(self) -> bool:
        """Whether notifications reach this process."""
        return self._connection is not None and self._probed.is_set()

    @property
    def followed_channels(self) -> frozenset[str]:
        """The channels of what somebody here follows."""
        return frozenset(self._names)

    def open(self) -> None:
        """Start listening, and go on as long as it is open."""
        self._keeping = self._spawn(self._keep_listening(), "postgres-listen")

    async def aclose(self) -> None:
        """Listen no more; notifications on their way are sent before."""
        if self._keeping is not None:
            while not self._keeping.done():
                # Amid a command the driver may answer with an error of its own, which is retried.
                self._keeping.cancel()
                await asyncio.wait([self._keeping], timeout=_CANCEL_AGAIN)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_ALIVE_WITHIN)
        for task in self._tasks:
            task.cancel()
        await self._hang_up()

    # -- following -------------------------------------------------------------------------

    async def follow(self, hints: Hints, names: Collection[str]) -> None:
        await super().follow(hints, names)
        await self._listen_to_followed()

    def leave(self, hints: Hints) -> None:
        super().leave(hints)
        if self._keeping is not None and not self._keeping.done():
            self._spawn(self._listen_to_followed(), "postgres-unlisten")

    async def _listen_to_followed(self) -> None:
        """LISTEN to what somebody follows and nothing else; looking goes on if that fails."""
        async with self._using:
            wanted = {channel_of(self._schema, name): name for name in self._followed()}
            self._names = wanted
            connection = self._connection
            if connection is None:
                return
            commands = [f'LISTEN "{channel}"' for channel in wanted.keys() - self._listened]
            commands += [
                f'UNLISTEN "{channel}"'
                for channel in self._listened - wanted.keys() - {self._probe_channel}
            ]
            try:
                await self._execute(connection, commands)
            except (psycopg.Error, TimeoutError, OSError):
                self._lost.set()
            else:
                self._listened = {*wanted, self._probe_channel}

    def _followed(self) -> set[str]:
        return {name for hints in self._listeners for name in hints.wanted}

    # -- ringing ---------------------------------------------------------------------------

    def ring(self, name: str, but: Hints | None = None) -> None:
        self.tell(name, but)
        if name in self._ringing:
            self._ringing[name] = True
            return
        self._ringing[name] = False
        self._spawn(self._notify(name), "postgres-notify")

    async def write_and_ring(self, operation: str, steps: Sequence[Step], name: str) -> list[Rows]:
        """
        Write in one transaction, and tell other processes right behind its commit.

        Raises:
            StorageError: Nothing was written, or nobody knows.
        """
        notice = Step(_NOTIFY_ALONE, (channel_of(self._schema, name), self._own))
        return await self._client.announce(operation, steps, notice)

    def notification(self, name: str) -> Step:
        """What tells everybody, this process too, when a transaction commits it."""
        return Step(_NOTIFY, (channel_of(self._schema, name), ""))

    async def _notify(self, name: str) -> None:
        """One at a time for each name, and another one for everything that came meanwhile."""
        channel = channel_of(self._schema, name)
        try:
            while True:
                self._ringing[name] = False
                with suppress(StorageError):  # whoever isn't told will look
                    await self._client.read("notify", Step(_NOTIFY_ALONE, (channel, self._own)))
                if not self._ringing[name]:
                    return
        finally:
            del self._ringing[name]

    # -- listening -------------------------------------------------------------------------

    @property
    def _probe_channel(self) -> str:
        return f"mpp_{hashlib.sha256(self._own.encode()).hexdigest()[:32]}"

    async def _keep_listening(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._connect()
                pause = _FIRST_PAUSE
                await self._watch_over()
            except (psycopg.Error, StorageError, TimeoutError, OSError) as exc:
                self._warn("the listening connection is lost, looking instead", exc)
            was_pooled = self._connection is not None and not self._probed.is_set()
            await self._hang_up()
            await asyncio.sleep(_POOLED_PAUSE if was_pooled else pause)
            pause = min(_LONGEST_PAUSE, pause * 2)

    async def _connect(self) -> None:
        connection = await self._client.connect()
        try:
            connection.add_notify_handler(self._on_notify)
            self._lost.clear()
            self._probed.clear()
            async with self._using:
                self._listened = set()
                await self._execute(connection, [f'LISTEN "{self._probe_channel}"'])
                self._connection = connection
                self._look_out(connection)
        except BaseException:
            if self._connection is not connection:
                await connection.close()
            raise
        await self._listen_to_followed()

    async def _watch_over(self) -> None:
        """Until the connection is lost; raises if it turns out to be no good."""
        await self._client.read("notify", Step(_NOTIFY_ALONE, (self._probe_channel, "")))
        try:
            async with asyncio.timeout(_PROBE_WITHIN):
                await self._probed.wait()
        except TimeoutError:
            self._warn("a pooler keeps notifications away, looking every 100 ms", None)
            return
        self._has_warned = False
        # What was published before may not have reached us.
        self.tell_any()
        while True:
            try:
                async with asyncio.timeout(_ALIVE_EVERY):
                    await self._lost.wait()
            except TimeoutError:
                async with self._using:
                    if self._connection is not None:
                        await self._execute(self._connection, ["SELECT 1"])
            else:
                raise TimeoutError("The listening connection was closed.")

    async def _execute(
        self, connection: psycopg.AsyncConnection[Any], commands: Collection[str]
    ) -> None:
        if not commands:
            return
        # The driver waits on the same socket.
        self._look_away()
        try:
            async with asyncio.timeout(_ALIVE_WITHIN):
                listed = list(commands)
                for first in range(0, len(listed), _AT_ONCE):
                    await connection.execute("; ".join(listed[first : first + _AT_ONCE]).encode())
        finally:
            if connection is self._connection and not connection.closed:
                self._look_out(connection)

    def _look_out(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Hear of what comes on the socket."""
        self._fd = connection.fileno()
        asyncio.get_running_loop().add_reader(self._fd, self._on_readable)

    def _look_away(self) -> None:
        """
        Hear no more of the socket; idempotent.

        Before the driver may close it: its number is somebody else's then.
        """
        fd, self._fd = self._fd, None
        if fd is not None:
            asyncio.get_running_loop().remove_reader(fd)

    def _on_readable(self) -> None:
        connection = self._connection
        if connection is None:
            return
        pgconn = connection.pgconn
        try:
            pgconn.consume_input()
            while (notice := pgconn.notifies()) is not None:
                self._heard(notice.relname.decode(), notice.extra.decode())
            is_lost = pgconn.status != pq.ConnStatus.OK
        except psycopg.Error:
            is_lost = True
        if is_lost:
            self._look_away()
            self._lost.set()

    def _on_notify(self, notice: psycopg.Notify) -> None:
        self._heard(notice.channel, notice.payload)

    def _heard(self, channel: str, payload: str) -> None:
        if channel == self._probe_channel:
            self._probed.set()
        elif payload != self._own and (name := self._names.get(channel)) is not None:
            self.tell(name)

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        self._probed.clear()
        self._listened = set()
        if connection is not None:
            self._look_away()
            connection.remove_notify_handler(self._on_notify)
            with suppress(psycopg.Error, OSError):
                await connection.close()

    def _warn(self, text: str, exc: Exception | None) -> None:
        """Once until it works again."""
        if not self._has_warned:
            self._has_warned = True
            logger.warning(text, extra={"database": self._client.where}, exc_info=exc)

    def _spawn(self, work: Any, name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


@asynccontextmanager
async def open_listener(
    client: PostgresClient, schema: str, ids: Ids
) -> AsyncIterator[PostgresDoorbell]:
    """The doorbell of one place, for all users of one context."""
    bell = PostgresDoorbell(client, schema, ids)
    bell.open()
    try:
        yield bell
    finally:
        await bell.aclose()
