"""Which signals were taken lately, so that a repetition has no second effect (S15)."""

from __future__ import annotations

import asyncio
import weakref
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from mastra_core.base.clock import Clock
from mastra_core.contracts.signal_sink import Accepted

__all__ = ("MAX_REMEMBERED", "REMEMBER_SECONDS", "AcceptedSignals")

#: How many signals of all threads are remembered at most.
MAX_REMEMBERED: Final = 10_000
#: How long each is; later the stored row of the thread answers a repetition.
REMEMBER_SECONDS: Final = 600.0

_Key = tuple[str, str]


@dataclass(slots=True)
class _Taken:
    """One signal: first how it is being taken, then how it was."""

    taken_at: float
    future: asyncio.Future[Accepted] | None
    answer: Accepted | None = None
    #: The output belongs to its run and its readers; memory isn't kept for a repetition.
    output: weakref.ref[Any] | None = None


class AcceptedSignals:
    """Answers per thread and signal id; bounded in number and time."""

    def __init__(
        self, clock: Clock, *, limit: int = MAX_REMEMBERED, seconds: float = REMEMBER_SECONDS
    ) -> None:
        self._clock = clock
        self._limit = limit
        self._seconds = seconds
        self._taken: OrderedDict[_Key, _Taken] = OrderedDict()
        self._cancelled: OrderedDict[_Key, None] = OrderedDict()
        #: When something was last accepted for a thread: by the monotonic and the wall clock.
        self._times: OrderedDict[str, tuple[float, datetime]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._taken)

    def time_for(self, thread: str) -> datetime:
        """
        The time of a signal that is accepted now: after those that were accepted here before it
        for the same thread, also if the wall clock was put back.
        """
        now, at = self._clock.monotonic(), self._clock.now()
        _, last = self._times.get(thread, (now, at))
        if at < last:
            at = last + timedelta(milliseconds=1)
        self._times[thread] = (now, at)
        self._times.move_to_end(thread)
        while len(self._times) > self._limit or now - self._oldest_time() > self._seconds:
            self._times.popitem(last=False)
        return at

    def _oldest_time(self) -> float:
        return next(iter(self._times.values()))[0]

    def remember(self, thread: str, signal_id: str, accepted: asyncio.Future[Accepted]) -> None:
        """Answer a repetition of this signal as the first time; refused ones may come again."""
        now = self._clock.monotonic()
        key = (thread, signal_id)
        self._taken[key] = _Taken(taken_at=now, future=accepted)
        self._taken.move_to_end(key)
        accepted.add_done_callback(partial(self._settle, key))
        self._forget_old(now)

    def get(self, thread: str, signal_id: str) -> asyncio.Future[Accepted] | None:
        """How this signal was taken before; None if it is new, was refused or is long ago."""
        self._forget_old(self._clock.monotonic())
        key = (thread, signal_id)
        taken = self._taken.get(key)
        if taken is not None and taken.future is not None:
            if not taken.future.done():
                return taken.future
            self._settle(key, taken.future)
            taken = self._taken.get(key)
        if taken is None or taken.answer is None:
            return None
        output = taken.output() if taken.output is not None else None
        answered: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        answered.set_result(replace(taken.answer, output=output))
        return answered

    def cancel(self, thread: str, signal_id: str) -> None:
        """This one is not wanted any more, should it (still) come."""
        self._cancelled[thread, signal_id] = None
        while len(self._cancelled) > self._limit:
            self._cancelled.popitem(last=False)

    def is_cancelled(self, thread: str, signal_id: str) -> bool:
        """Was it cancelled, perhaps before it came?"""
        return (thread, signal_id) in self._cancelled

    def _settle(self, key: _Key, future: asyncio.Future[Accepted]) -> None:
        taken = self._taken.get(key)
        if taken is None or taken.future is not future:
            return
        if future.cancelled() or future.exception() is not None:
            del self._taken[key]
            return
        answer = future.result()
        if answer.action == "blocked":
            del self._taken[key]
            return
        taken.future = None
        taken.answer = replace(answer, output=None)
        taken.output = weakref.ref(answer.output) if answer.output is not None else None

    def _forget_old(self, now: float) -> None:
        while self._taken:
            key, oldest = next(iter(self._taken.items()))
            if len(self._taken) <= self._limit and now - oldest.taken_at <= self._seconds:
                return
            del self._taken[key]
