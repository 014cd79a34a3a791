"""One SQLite connection and the one thread that uses it.

Callers put jobs into a queue; the thread takes all that wait, runs them in one go and
reports back once, so the hop between threads is paid per group and not per call. Writing
jobs of a group share one transaction, each behind a savepoint of its own: an error is its
caller's alone. If the transaction itself is lost (disk full, commit refused), every job of
the group runs again by itself and gets its own answer.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

import apsw

from mastra_libsql.errors import ClosedError
from mastra_libsql.write_lock import WriteLock
from mastra_sql.executor import Executed, Observer, ProgramFactory, Rows, Step

__all__ = ("CallJob", "Job", "ProgramJob", "ReadJob", "Session", "StatementJob", "Worker")

T = TypeVar("T")

#: Most jobs of one group, and how long a group may hold the lock before it commits.
_MAX_GROUP: Final = 256
_LONGEST_GROUP: Final = 0.05
#: Answers of a long group of reads are given out in between.
_LONGEST_SILENCE: Final = 0.002

#: How many callers get their answers in one round of the event loop.
_MOST_AT_ONCE: Final = 32
#: After so long the thread leaves the interpreter to others, for a moment.
_LONGEST_STRETCH: Final = 0.002
_MOMENT: Final = 0.000001

#: Seconds between two interrupts while a connection is being closed.
_INTERRUPT_EVERY: Final = 0.01

_NO_ROWS: Final[Rows] = []


class Session:
    """A connection as jobs see it; belongs to its worker's thread."""

    __slots__ = ("_pause_at", "connection", "observer")

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.observer: Observer | None = None
        self._pause_at = 0.0

    def run(self, step: Step) -> Rows:
        """Run one statement to its end."""
        statement, values = step
        cursor = self.connection.execute(statement.sql, values)
        rows: Rows = cursor.fetchall() if statement.columns else _NO_ROWS
        if self.observer is not None:
            documents = len(rows) if statement.documents else 0
            self.observer(Executed(statement.name, statement.sql, len(rows), documents))
        if time.monotonic() > self._pause_at:
            # A thread that waits for the interpreter hardly ever gets it between statements as
            # short as these, but only when Python takes it away, which is every 5 ms.
            time.sleep(_MOMENT)
            self.begin()
        return rows

    def begin(self) -> None:
        """Others may be kept waiting from now on, for a while."""
        self._pause_at = time.monotonic() + _LONGEST_STRETCH

    def control(self, sql: str) -> None:
        """Run one statement that moves a transaction."""
        self.connection.execute(sql)

    @property
    def in_transaction(self) -> bool:
        return bool(self.connection.in_transaction)


class Job(Generic[T]):
    """One call, waiting for the thread; its future belongs to the caller's loop."""

    __slots__ = ("future", "loop")

    #: True if it cares for transactions itself.
    alone = False

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()

    def run(self, session: Session) -> T:
        """Do the work; called inside a transaction, and again if that is lost."""
        raise NotImplementedError


class StatementJob(Job[Rows]):
    """One writing statement; SQLite makes it all or nothing without our help."""

    __slots__ = ("step",)

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step

    def run(self, session: Session) -> Rows:
        return session.run(self.step)


class ReadJob(Job[list[Rows]]):
    """Some reading statements."""

    __slots__ = ("steps",)

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__()
        self.steps = steps

    def run(self, session: Session) -> list[Rows]:
        return [session.run(step) for step in self.steps]


class ProgramJob(Job[T]):
    """One transaction; if it shares one, its writes stand behind a savepoint."""

    __slots__ = ("factory",)

    def __init__(self, factory: ProgramFactory[T]) -> None:
        super().__init__()
        self.factory = factory

    def run(self, session: Session) -> T:
        return self._run(session, is_alone=False)

    def run_alone(self, session: Session) -> T:
        """As ``run``, in a transaction that is rolled back if it raises."""
        return self._run(session, is_alone=True)

    def _run(self, session: Session, *, is_alone: bool) -> T:
        program = self.factory()
        has_savepoint = False
        try:
            steps = next(program)
            while True:
                if (
                    not is_alone
                    and not has_savepoint
                    and any(step.statement.writes for step in steps)
                ):
                    session.control("SAVEPOINT mastra_job")
                    has_savepoint = True
                steps = program.send([session.run(step) for step in steps])
        except StopIteration as finished:
            if has_savepoint:
                session.control("RELEASE mastra_job")
            result: T = finished.value
            return result
        except BaseException:
            program.close()
            if has_savepoint and session.in_transaction:
                session.control("ROLLBACK TO mastra_job")
                session.control("RELEASE mastra_job")
            raise


class CallJob(Job[T]):
    """Anything else with the connection, between transactions."""

    __slots__ = ("call",)
    alone = True

    def __init__(self, call: Callable[[Session], T]) -> None:
        super().__init__()
        self.call = call

    def run(self, session: Session) -> T:
        return self.call(session)


class _GroupLostError(Exception):
    """The transaction of a group is gone; nothing of it was written."""


#: What one job came to.
_Answer = tuple[Job[Any], Any, BaseException | None]


class Worker:
    """The thread of one connection; opened by its first job, closed by ``aclose``."""

    def __init__(
        self,
        open_connection: Callable[[Callable[[], bool]], apsw.Connection],
        *,
        name: str,
        lock: WriteLock | None,
        lock_timeout: float,
    ) -> None:
        """``lock=None`` makes a reader: its jobs share a read transaction instead."""
        self._open = open_connection
        self._name = name
        self._lock = lock
        self._lock_timeout = lock_timeout
        self._queue: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._session: Session | None = None
        self._observer: Observer | None = None
        self._closing = False
        #: Held while the connection is interrupted or taken away.
        self._interrupting = threading.Lock()
        self._process = os.getpid()

    # -- the callers' side -----------------------------------------------------------------

    def submit(self, job: Job[T]) -> asyncio.Future[T]:
        """Put a job into the queue; its future gets the result."""
        if self._closing:
            raise ClosedError("The connection is closed.")
        if self._thread is None:
            self._start()
        elif self._process != os.getpid():
            raise ClosedError("The connection belongs to the process that this one came from.")
        self._queue.put(job)
        return job.future

    async def open(self) -> None:
        """Open the connection now, so that its failure is seen here."""
        await self.submit(CallJob(_nothing))

    @property
    def is_open(self) -> bool:
        return self._session is not None

    @property
    def is_closed(self) -> bool:
        return self._closing or self._thread is None

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """How many jobs are in the queue."""
        return self._queue.qsize()

    def observe(self, observer: Observer | None) -> None:
        """Call this for every statement from now on."""
        self._observer = observer
        if self._session is not None:
            self._session.observer = observer

    async def aclose(self) -> None:
        """End what runs, answer what waits, close the connection; idempotent."""
        first, self._closing = not self._closing, True
        thread = self._thread
        if thread is None or self._process != os.getpid():
            return
        if first:
            self._queue.put(None)
        await asyncio.to_thread(self._end, thread)

    def _end(self, thread: threading.Thread) -> None:
        """
        Interrupt until the thread has ended.

        Once isn't enough: an interrupt that comes just before a statement starts is forgotten.
        """
        while thread.is_alive():
            with self._interrupting:
                if self._session is not None:
                    self._session.connection.interrupt()
            thread.join(_INTERRUPT_EVERY)

    def _start(self) -> None:
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        self._thread.start()

    # -- the thread's side -----------------------------------------------------------------

    def _work(self) -> None:
        take = self._queue.get
        waiting = self._queue.qsize
        try:
            while True:
                job = take()
                if job is None:
                    return
                if waiting() == 0:
                    self._run([job])
                    continue
                jobs = [job]
                for _ in range(min(waiting(), _MAX_GROUP)):
                    job = take()
                    if job is None:
                        self._refuse(jobs)
                        return
                    jobs.append(job)
                self._run(jobs)
        finally:
            self._close_session()
            self._refuse(self._rest())

    def _rest(self) -> list[Job[Any]]:
        rest: list[Job[Any]] = []
        with suppress(queue.Empty):
            while True:
                job = self._queue.get_nowait()
                if job is not None:
                    rest.append(job)
        return rest

    def _run(self, jobs: list[Job[Any]]) -> None:
        try:
            session = self._session or self._open_session()
        except BaseException as exc:  # noqa: BLE001 - every caller gets it
            _report([(job, None, exc) for job in jobs])
            return
        session.begin()
        group: list[Job[Any]] = []
        for job in jobs:
            if job.future.cancelled():
                continue
            if job.alone:
                self._run_group(session, group)
                group = []
                _report([_attempt(session, job)])
            else:
                group.append(job)
        if group:
            self._run_group(session, group)

    def _open_session(self) -> Session:
        session = Session(self._open(lambda: self._closing))
        session.observer = self._observer
        self._session = session
        return session

    def _close_session(self) -> None:
        with self._interrupting:
            session, self._session = self._session, None
        if session is not None:
            # A new statement forgets earlier interrupts, which would end the last checkpoint.
            with suppress(apsw.Error):
                session.connection.execute("SELECT 1").fetchall()
            session.connection.close()

    def _refuse(self, jobs: Iterable[Job[Any]]) -> None:
        closed = ClosedError("The connection was closed.")
        _report([(job, None, closed) for job in jobs])

    # -- groups ----------------------------------------------------------------------------

    def _run_group(self, session: Session, group: list[Job[Any]]) -> None:
        if not group:
            return
        if self._lock is None:
            self._run_reads(session, group)
        elif len(group) == 1:
            _report([self._run_one(session, group[0])])
        else:
            self._run_writes(session, group)

    def _run_reads(self, session: Session, group: list[Job[Any]]) -> None:
        if len(group) == 1 and isinstance(group[0], ReadJob) and len(group[0].steps) == 1:
            _report([_attempt(session, group[0])])
            return
        try:
            session.control("BEGIN")
        except BaseException as exc:  # noqa: BLE001 - every caller gets it
            _report([(job, None, exc) for job in group])
            return
        answers: list[_Answer] = []
        reported_at = time.monotonic()
        try:
            for job in group:
                answers.append(_attempt(session, job))
                if time.monotonic() - reported_at > _LONGEST_SILENCE:
                    _report(answers)
                    answers = []
                    reported_at = time.monotonic()
        finally:
            # Every answer is known by now; a damaged file can't even end its transaction.
            _end_reads(session)
            _report(answers)

    def _run_writes(self, session: Session, group: list[Job[Any]]) -> None:
        rest = group
        while rest:
            try:
                answers = self._transaction(session, rest)
            except _GroupLostError:
                for job in rest:
                    _report([self._run_one(session, job)])
                return
            except BaseException as exc:  # noqa: BLE001 - every caller gets it
                _report([(job, None, exc) for job in rest])
                return
            _report(answers)
            rest = rest[len(answers) :]

    def _transaction(self, session: Session, jobs: list[Job[Any]]) -> list[_Answer]:
        """As many of the jobs as fit into one transaction, committed."""
        answers: list[_Answer] = []
        self._lock_writes()
        try:
            session.control("BEGIN IMMEDIATE")
            end = time.monotonic() + _LONGEST_GROUP
            for job in jobs:
                answer = _attempt(session, job)
                if not session.in_transaction:
                    raise _GroupLostError
                answers.append(answer)
                if time.monotonic() > end:
                    break
            _commit(session)
        finally:
            self._end_writes(session)
        return answers

    def _run_one(self, session: Session, job: Job[Any]) -> _Answer:
        if self._closing:
            return (job, None, ClosedError("The connection was closed."))
        try:
            self._lock_writes()
            try:
                if not isinstance(job, ProgramJob):
                    # One statement is a transaction by itself.
                    return (job, job.run(session), None)
                session.control("BEGIN IMMEDIATE")
                result = job.run_alone(session)
                session.control("COMMIT")
            finally:
                self._end_writes(session)
        except BaseException as exc:  # noqa: BLE001 - the caller gets it
            return (job, None, exc)
        return (job, result, None)

    def _lock_writes(self) -> None:
        if self._lock is not None:
            self._lock.acquire(self._lock_timeout)

    def _end_writes(self, session: Session) -> None:
        """Roll back what wasn't committed and let the next one write."""
        try:
            if session.in_transaction:
                session.control("ROLLBACK")
        finally:
            if self._lock is not None:
                self._lock.release()


def _nothing(session: Session) -> None:
    """Only opens the connection."""


def _attempt(session: Session, job: Job[Any]) -> _Answer:
    try:
        return (job, job.run(session), None)
    except BaseException as exc:  # noqa: BLE001 - the caller gets it
        return (job, None, exc)


def _end_reads(session: Session) -> None:
    """Leave the read transaction whatever happens; the callers have their answers."""
    for sql in ("COMMIT", "ROLLBACK"):
        if not session.in_transaction:
            return
        with suppress(apsw.Error):
            session.control(sql)


def _commit(session: Session) -> None:
    try:
        session.control("COMMIT")
    except apsw.Error as exc:
        raise _GroupLostError from exc


def _report(answers: Sequence[_Answer]) -> None:
    """Give the answers to their callers, with one wake-up per loop."""
    if not answers:
        return
    loop = answers[0][0].loop
    if len(answers) == 1:
        _wake(loop, answers)
        return
    if all(job.loop is loop for job, _, _ in answers):
        _wake(loop, answers)
        return
    by_loop: dict[asyncio.AbstractEventLoop, list[_Answer]] = {}
    for answer in answers:
        by_loop.setdefault(answer[0].loop, []).append(answer)
    for own_loop, own in by_loop.items():
        _wake(own_loop, own)


def _wake(loop: asyncio.AbstractEventLoop, answers: Sequence[_Answer]) -> None:
    # A loop that is closed meanwhile has nobody left who waits.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_settle, answers)


def _settle(answers: Sequence[_Answer]) -> None:
    if len(answers) > _MOST_AT_ONCE:
        # Each of those who wait goes on in the next round of the loop; a few in each round.
        asyncio.get_running_loop().call_soon(_settle, answers[_MOST_AT_ONCE:])
        answers = answers[:_MOST_AT_ONCE]
    for job, result, exc in answers:
        future = job.future
        if future.done():
            continue
        if exc is None:
            future.set_result(result)
        else:
            future.set_exception(exc)
