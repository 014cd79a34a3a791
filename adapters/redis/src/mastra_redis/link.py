"""One connection that all tasks share: commands of one loop turn travel together.

Whoever calls only queues a command. One task writes everything that is queued at once,
another one reads the replies and hands each to its caller, so a command never waits for the
reply of another one. Results, errors and cancellation stay with their caller: a caller that
goes away loses its reply, nobody else's.

A lost connection is opened again. Commands that weren't written yet wait for it; commands
that only read are written once more; all others fail, since nobody knows what became of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast

from hiredis import PushNotification
from hiredis import pack_command as _hiredis_pack_command
from redis.asyncio.connection import AbstractConnection, SSLConnection
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

__all__ = (
    "Argument",
    "Link",
    "LinkClosedError",
    "LostReplyError",
    "Reply",
    "look_at",
    "pack_command",
)

logger = logging.getLogger(__name__)

Argument = bytes | str | int | float
Reply = Any

#: Its own types know commands of one word only.
pack_command = cast("Callable[[tuple[Argument, ...]], bytes]", _hiredis_pack_command)

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
#: Their only answer is a message out of turn.
_UNANSWERED: Final = frozenset({"SUBSCRIBE", "UNSUBSCRIBE"})
#: Commands that are written in one go at most; more take longer than others like to wait.
_BATCH: Final = 128
#: Callers that get their replies in one round of the event loop at most.
_ANSWERED: Final = 32


class LinkClosedError(Exception):
    """The connection was closed by us, before or while the command ran."""


class LostReplyError(Exception):
    """The command was sent and the connection was lost; nobody knows what became of it."""


@dataclass(slots=True, eq=False)
class _Call:
    """One command and who waits for its reply."""

    command: tuple[Argument, ...]
    reply: asyncio.Future[Reply]
    #: Sending it twice does no harm.
    repeatable: bool
    #: By the loop's clock.
    deadline: float
    #: Commands that belong together and travel without anything between them.
    group: tuple[tuple[Argument, ...], ...] = ()
    #: Replies of the group that came already.
    replies: list[Reply] = field(default_factory=list)


@dataclass(slots=True)
class _Setup:
    """What each new connection is told before anything else."""

    #: Prefixes of keys whose changes by others we want to hear of, with who wants it.
    tracked: dict[bytes, Callable[[bytes | None], None]] = field(default_factory=dict)
    channels: dict[bytes, list[Callable[[bytes], None]]] = field(default_factory=dict)
    #: Called after each reconnection.
    reconnected: list[Callable[[], None]] = field(default_factory=list)


class Link:
    """
    A connection to one server, shared by all tasks of one event loop.

    Args:
        make: Makes a connection that isn't connected.
        connect_timeout_s: How long a command waits for a connection.
        request_timeout_s: How long it waits for its reply, once it was sent.
    """

    def __init__(
        self,
        make: Callable[[], AbstractConnection],
        *,
        connect_timeout_s: float,
        request_timeout_s: float,
    ) -> None:
        self._make = make
        self._connect_timeout_s = connect_timeout_s
        self._request_timeout_s = request_timeout_s
        self._setup = _Setup()
        self._connection: AbstractConnection | None = None
        self._queue: deque[_Call] = deque()
        self._sent: deque[_Call] = deque()
        self._work = asyncio.Event()
        self._broken = asyncio.Event()
        self._runner: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._last_failure: BaseException | None = None
        #: Round trips since the link was opened: how often commands were written.
        self.writes: int = 0
        self._observer: Callable[[tuple[Argument, ...]], None] | None = None

    # -- life ----------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether it was closed by us."""
        return self._is_closed

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection right now."""
        return self._connection is not None

    @property
    def waiting(self) -> int:
        """How many commands wait for a reply."""
        return len(self._queue) + len(self._sent)

    async def open(self) -> None:
        """
        Connect, and keep connected until closed.

        Raises:
            RedisError, OSError: The server can't be reached or refuses us.
        """
        connection = await self._connect()
        self._runner = asyncio.create_task(self._run(connection), name="redis-link")

    async def aclose(self) -> None:
        """Close; commands under way fail with ``LinkClosedError``. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._runner is not None:
            self._runner.cancel()
            with suppress(asyncio.CancelledError):
                await self._runner
        self._fail_all(LinkClosedError("The connection was closed."))

    def observe(self, observer: Callable[[tuple[Argument, ...]], None] | None) -> None:
        """Call this for every command from now on; it must neither wait nor raise."""
        self._observer = observer

    # -- commands ------------------------------------------------------------------------------

    async def call(self, *command: Argument, repeatable: bool = False) -> Reply:
        """
        The reply to one command.

        Args:
            command: Name and arguments.
            repeatable: Send it again if the connection is lost before the reply comes.

        Raises:
            RedisError: The server refused it.
            LostReplyError: It was sent, but the reply never came.
            LinkClosedError: The link was closed.
        """
        return await self.send(command, repeatable=repeatable)

    def send(
        self, command: tuple[Argument, ...], *, repeatable: bool = False
    ) -> asyncio.Future[Reply]:
        """Queue one command; it goes out with all others of this loop turn."""
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Reply] = loop.create_future()
        self._enqueue(_Call(command, reply, repeatable, 0.0), loop)
        return reply

    def send_transaction(
        self, commands: Sequence[tuple[Argument, ...]]
    ) -> asyncio.Future[list[Reply]]:
        """Queue commands that the server runs without anybody between; all replies."""
        loop = asyncio.get_running_loop()
        replies: asyncio.Future[list[Reply]] = loop.create_future()
        group = (("MULTI",), *commands, ("EXEC",))
        self._enqueue(_Call(("EXEC",), replies, False, 0.0, group), loop)
        return replies

    def _enqueue(self, call: _Call, loop: asyncio.AbstractEventLoop) -> None:
        if self._is_closed:
            call.reply.set_exception(LinkClosedError("The connection is closed."))
            return
        wait_s = self._request_timeout_s if self._connection else self._connect_timeout_s
        call.deadline = loop.time() + wait_s
        self._queue.append(call)
        if self._observer is not None:
            for command in call.group or (call.command,):
                self._observer(command)
        self._work.set()
        if self._timer is None or call.deadline < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(call.deadline, self._expire)

    async def call_all(
        self, commands: Sequence[tuple[Argument, ...]], *, repeatable: bool = False
    ) -> list[Reply]:
        """The replies to several commands that travel together; the first error is raised."""
        replies = [self.send(command, repeatable=repeatable) for command in commands]
        results = await asyncio.gather(*replies, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return list(results)

    # -- what the server tells by itself ----------------------------------------------------------

    async def track(
        self, prefixes: Sequence[bytes], changed: Callable[[bytes | None], None]
    ) -> None:
        """
        Hear of every key with one of these prefixes that anybody else changes.

        The news of a change is here before the reply to any command that was sent after it.

        Args:
            prefixes: None of them may begin with another one.
            changed: Called with the key; with None if every key may have changed.

        Raises:
            RedisError: The server refuses; then nothing is tracked.
        """
        new = [prefix for prefix in prefixes if prefix not in self._setup.tracked]
        for prefix in new:
            self._setup.tracked[prefix] = changed
        try:
            if new:
                await self.call(*_tracking(new), repeatable=True)
        except BaseException:
            for prefix in new:
                self._setup.tracked.pop(prefix, None)
            raise

    def untrack(self, prefixes: Sequence[bytes]) -> None:
        """Hear of them no more; the server may go on telling until the next connection."""
        for prefix in prefixes:
            self._setup.tracked.pop(prefix, None)

    def listen(self, channel: bytes, heard: Callable[[bytes], None]) -> None:
        """
        Hear every message of a channel, across reconnections.

        Whatever is sent over this link from now on comes after the subscription.
        """
        listeners = self._setup.channels.setdefault(channel, [])
        listeners.append(heard)
        if len(listeners) == 1 and not self._is_closed:
            self._enqueue_unanswered("SUBSCRIBE", channel)

    def stop_listening(self, channel: bytes, heard: Callable[[bytes], None]) -> None:
        """Hear it no more."""
        listeners = self._setup.channels.get(channel, [])
        with suppress(ValueError):
            listeners.remove(heard)
        was_heard = not listeners and self._setup.channels.pop(channel, None) is not None
        if was_heard and not self._is_closed:
            self._enqueue_unanswered("UNSUBSCRIBE", channel)

    def _enqueue_unanswered(self, name: str, channel: bytes) -> None:
        """Queue a command whose only answer is a message out of turn: nobody waits for it."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[Reply] = loop.create_future()
        written.add_done_callback(look_at)
        self._enqueue(_Call((name, channel), written, True, 0.0), loop)

    def on_reconnect(self, callback: Callable[[], None]) -> None:
        """Call this whenever a lost connection is back, so that news were missed."""
        self._setup.reconnected.append(callback)

    def off_reconnect(self, callback: Callable[[], None]) -> None:
        """Call it no more."""
        with suppress(ValueError):
            self._setup.reconnected.remove(callback)

    # -- the connection ------------------------------------------------------------------------

    async def _connect(self) -> AbstractConnection:
        connection = self._make()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await connection.connect()  # type: ignore[no-untyped-call] # the driver's
                # Without a handler of its own the driver swallows news of changed keys.
                parser: Any = connection._parser  # noqa: SLF001 - there is no other way to it
                parser.set_invalidation_push_handler(_as_it_is)
                if self._setup.tracked:
                    command = pack_command(_tracking(list(self._setup.tracked)))
                    await connection.send_packed_command(command, check_health=False)
                    await self._skip_pushes(connection)
                if self._setup.channels:
                    command = pack_command(("SUBSCRIBE", *self._setup.channels.keys()))
                    await connection.send_packed_command(command, check_health=False)
        except TimeoutError as exc:
            await _close(connection)
            # Without TLS on the other side its handshake is never answered.
            secured = "TLS handshake" if isinstance(connection, SSLConnection) else "connection"
            raise RedisConnectionError(
                f"There was no {secured} within {self._connect_timeout_s:g} s"
            ) from exc
        except BaseException:
            await _close(connection)
            raise
        self._connection = connection
        self._last_failure = None
        return connection

    async def _skip_pushes(self, connection: AbstractConnection) -> None:
        while True:
            reply = await connection.read_response(
                disable_decoding=True, disconnect_on_error=False, push_request=True
            )
            if not isinstance(reply, PushNotification):
                return
            self._pushed(reply)

    async def _run(self, connection: AbstractConnection) -> None:
        """Keep one connection working; open the next one when it is lost."""
        first: AbstractConnection | None = connection
        while True:
            connection = first or await self._reconnect()
            if first is None:
                for callback in tuple(self._setup.reconnected):
                    callback()
            first = None
            self._broken.clear()
            reader = asyncio.create_task(self._read(connection), name="redis-read")
            writer = asyncio.create_task(self._write(connection), name="redis-write")
            broken = asyncio.create_task(self._broken.wait(), name="redis-broken")
            tasks: set[asyncio.Task[Any]] = {reader, writer, broken}
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._connection = None
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                await _close(connection)
            failures = [task.exception() for task in (reader, writer) if not task.cancelled()]
            failure = next((f for f in failures if f), None)
            self._last_failure = self._last_failure or failure
            self._lose_sent()

    async def _reconnect(self) -> AbstractConnection:
        pause = _FIRST_PAUSE_S
        while True:
            await self._wait_for_need()
            try:
                return await self._connect()
            except (AuthenticationError, AuthorizationError, ResponseError) as exc:
                # It answered and doesn't want us: waiting changes nothing.
                self._last_failure = exc
                self._fail_all(exc)
            except (RedisError, OSError, TimeoutError) as exc:
                self._last_failure = exc
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE_S, pause * 2)

    async def _wait_for_need(self) -> None:
        """With nobody waiting and nothing to hear of, there is no hurry to connect."""
        if not self._queue and not self._setup.tracked and not self._setup.channels:
            self._work.clear()
            await self._work.wait()

    async def _write(self, connection: AbstractConnection) -> None:
        while True:
            self._work.clear()
            while self._queue and self._connection is connection:
                calls = self._take()
                if calls:
                    self.writes += 1
                    packed = b"".join([_packed(call) for call in calls])
                    await connection.send_packed_command(packed, check_health=False)
                if self._queue:
                    await asyncio.sleep(0)
            await self._work.wait()

    def _take(self) -> list[_Call]:
        """What is written next, in the order in which it was queued."""
        deadline = asyncio.get_running_loop().time() + self._request_timeout_s
        calls: list[_Call] = []
        while self._queue and len(calls) < _BATCH:
            call = self._queue.popleft()
            if call.reply.done():  # nobody waits any more
                continue
            calls.append(call)
            call.deadline = deadline
            if call.command[0] in _UNANSWERED:
                call.reply.set_result(None)
            else:
                self._sent.append(call)
        return calls

    async def _read(self, connection: AbstractConnection) -> None:
        sent = self._sent
        read = connection.read_response
        answered = 0
        while True:
            if answered >= _ANSWERED:
                # What these callers do now is done before the next ones are woken.
                answered = 0
                await asyncio.sleep(0)
            try:
                reply = await read(
                    disable_decoding=True,
                    disconnect_on_error=False,
                    push_request=True,
                )
            except ResponseError as exc:
                reply = exc
            except RedisConnectionError as exc:
                if type(exc) is RedisConnectionError:
                    raise
                reply = exc  # an answer that the driver counts as one: LOADING, too many clients
            if type(reply) is PushNotification:
                self._pushed(reply)
                continue
            call = sent[0]
            if call.group:
                call.replies.append(reply)
                if len(call.replies) < len(call.group):
                    continue
                reply = _transaction_reply(call.replies)
            sent.popleft()
            waiting = call.reply
            if waiting.done():
                continue
            answered += 1
            if isinstance(reply, Exception):
                waiting.set_exception(reply)
            else:
                waiting.set_result(reply)

    def _pushed(self, message: Sequence[Any]) -> None:
        kind = message[0]
        if kind == b"invalidate":
            for key in message[1] if message[1] is not None else (None,):
                self._invalidated(key)
        elif kind == b"message":
            for heard in tuple(self._setup.channels.get(message[1], ())):
                heard(message[2])

    def _invalidated(self, key: bytes | None) -> None:
        for prefix, changed in self._setup.tracked.items():
            if key is None or key.startswith(prefix):
                changed(key)

    # -- failures ------------------------------------------------------------------------------

    def _lose_sent(self) -> None:
        """The connection is gone: write again what may be, fail the rest."""
        again: list[_Call] = []
        while self._sent:
            call = self._sent.popleft()
            if call.reply.done():
                continue
            if call.repeatable:
                call.repeatable = False
                again.append(call)
                continue
            lost = LostReplyError("The connection was lost before the reply came.")
            lost.__cause__ = self._last_failure
            call.reply.set_exception(lost)
        self._queue.extendleft(reversed(again))

    def _expire(self) -> None:
        """Fail what waited too long; a server that doesn't answer costs the connection."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._timer = None
        if self._sent and self._sent[0].deadline <= now:
            while self._sent and self._sent[0].reply.done():
                self._sent.popleft()  # its caller went away; the reply never came either
            late = RedisTimeoutError("The server didn't answer in time.")
            self._last_failure = late
            while self._sent:
                call = self._sent.popleft()
                if not call.reply.done():
                    call.reply.set_exception(late)
            self._break()
        for call in [call for call in self._queue if call.deadline <= now]:
            self._queue.remove(call)
            if not call.reply.done():
                call.reply.set_exception(self._unreachable())
        deadlines = [calls[0].deadline for calls in (self._sent, self._queue) if calls]
        if deadlines:
            self._timer = loop.call_at(min(deadlines), self._expire)

    def _unreachable(self) -> BaseException:
        error = RedisConnectionError("There was no connection in time.")
        error.__cause__ = self._last_failure
        return error

    def _break(self) -> None:
        """Use the connection no more; the next command goes over a new one."""
        self._connection = None
        self._broken.set()

    def _fail_all(self, error: BaseException) -> None:
        for calls in (self._sent, self._queue):
            while calls:
                call = calls.popleft()
                if not call.reply.done():
                    call.reply.set_exception(error)
                    # Whoever waits gets it; that nobody waits any more is no news.
                    call.reply.exception()


def look_at(reply: asyncio.Future[Any]) -> None:
    """Take notice of how a reply ended that nobody may wait for any more."""
    if not reply.cancelled():
        reply.exception()


async def _close(connection: AbstractConnection) -> None:
    with suppress(RedisError, OSError, TimeoutError, asyncio.TimeoutError):
        await connection.disconnect(nowait=True)


def _packed(call: _Call) -> bytes:
    if call.group:
        return b"".join([pack_command(command) for command in call.group])
    return pack_command(call.command)


def _transaction_reply(replies: Sequence[Reply]) -> Reply:
    """What became of a transaction: the first refusal of a command, or what ``EXEC`` says."""
    for reply in replies:
        if isinstance(reply, Exception):
            return reply
    return replies[-1]


async def _as_it_is(message: Sequence[Any]) -> Sequence[Any]:
    return message


def _tracking(prefixes: Sequence[bytes]) -> tuple[Argument, ...]:
    """Hear of other connections' changes only: ours are known."""
    wanted: list[Argument] = []
    for prefix in prefixes:
        wanted += ["PREFIX", prefix]
    return ("CLIENT", "TRACKING", "ON", "BCAST", *wanted, "NOLOOP")
