"""Accepted input that no run has answered yet, in storage (signals.md 22, G1).

A signal is put here before its sender is told that it is accepted, and removed when the run
that took it has ended. Whoever gets the lease of a thread adopts what stands here, also after
the process that had it has died.

One value per signal in the domain ``thread_state``, under a name of the thread's own, and one
value per thread that has any, so that a thread whose owner died is found by a single read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final
from urllib.parse import quote, unquote

from mastra_core.base.clock import Clock
from mastra_core.base.isotime import epoch_ms
from mastra_core.contracts.storage import ThreadStateStorage
from mastra_core.errors import InvalidSignalError, WireDecodeError
from mastra_core.messages.signals import signal_from_wire
from mastra_core.wire.signals import Signal

__all__ = ("INBOX", "REFUSED_SECONDS", "InboxEntry", "ThreadInbox")

logger = logging.getLogger(__name__)

#: Where the threads with waiting input are listed.
INBOX: Final = "mastra-py-inbox"
#: For so long a thread counts as listed without asking again.
_LISTED_SECONDS: Final = 30.0
#: So many signals are removed at once.
_AT_ONCE: Final = 32
#: A refusal stays at least so long where its sender finds it.
REFUSED_SECONDS: Final = 300.0
#: A thread without input is taken off the list when it was seen like that for so long.
_EMPTY_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxEntry:
    """One accepted signal, and what the run that answers it needs to know."""

    signal: Signal
    agent_id: str
    #: It gets a run of its own instead of joining one (G11).
    turn: bool = False
    #: The id that its sender was promised for that run.
    run_id: str | None = None
    request_context: Mapping[str, Any] = field(default_factory=dict)
    #: Place among the signals that one process accepted in one millisecond.
    number: int = 0
    #: Its sender hasn't been told yet that it is accepted: who has the thread may refuse it (G6).
    offered: bool = False

    @property
    def order(self) -> tuple[int, int]:
        """The order of acceptance."""
        accepted = self.signal.accepted_at or self.signal.created_at
        return epoch_ms(accepted), self.number

    def to_wire(self) -> dict[str, Any]:
        """As it is stored."""
        wire = {
            "signal": self.signal.to_wire(),
            "agentId": self.agent_id,
            "turn": self.turn,
            "number": self.number,
        }
        if self.run_id is not None:
            wire["runId"] = self.run_id
        if self.request_context:
            wire["requestContext"] = dict(self.request_context)
        if self.offered:
            wire["offered"] = True
        return wire


class ThreadInbox:
    """Reads and writes the waiting input of threads."""

    def __init__(self, states: ThreadStateStorage, *, clock: Clock, source_id: str) -> None:
        self._states = states
        self._clock = clock
        self._source_id = source_id
        #: When a thread was listed by us, by the monotonic clock.
        self._listed: dict[str, float] = {}
        #: Since when a listed thread has been seen without input, and with which mark.
        self._empty: dict[str, tuple[Any, float]] = {}
        #: Refusals that stand in the boxes of threads, and since when they were seen there.
        self._refused: dict[str, dict[str, float]] = {}
        self._numbers = 0

    def next_number(self) -> int:
        """A number for an entry, larger than those before."""
        self._numbers += 1
        return self._numbers

    async def put(self, key: str, entry: InboxEntry) -> None:
        """
        Store a signal; when this returns it will be answered, whoever dies.

        Raises:
            StorageError: It isn't certain that it is stored.
        """
        await self._list(key)
        await self._states.set_state(_box(key), entry.signal.id, entry.to_wire())

    async def _list(self, key: str) -> None:
        """Before the entry: a list that names a thread too many harms nobody."""
        now = self._clock.monotonic()
        if now - self._listed.get(key, -_LISTED_SECONDS) < _LISTED_SECONDS:
            return
        mark = {"by": self._source_id, "at": epoch_ms(self._clock.now())}
        await self._states.set_state(INBOX, _quoted(key), mark)
        for old in [k for k, at in self._listed.items() if now - at >= _LISTED_SECONDS]:
            del self._listed[old]
        self._listed[key] = now

    async def entries(self, key: str) -> list[InboxEntry]:
        """
        What waits for this thread, in the order of acceptance.

        Raises:
            StorageError: The store didn't answer.
        """
        found = []
        refused: list[str] = []
        for signal_id, value in (await self._states.list_states(_box(key))).items():
            if isinstance(value, Mapping) and "refused" in value:
                refused.append(signal_id)
                continue
            try:
                found.append(self._read(value))
            except (InvalidSignalError, WireDecodeError, KeyError, TypeError, ValueError):
                logger.exception(
                    "an entry of the inbox can't be read", extra={"signal_id": signal_id}
                )
        await self._forget_refused(key, refused)
        return sorted(found, key=lambda entry: entry.order)

    async def _forget_refused(self, key: str, refused: Sequence[str]) -> None:
        """A refusal is taken away by who gets it; if that one has died, after a while."""
        now = self._clock.monotonic()
        before = self._refused.pop(key, {})
        seen = {one: before.get(one, now) for one in refused}
        old = [one for one, since in seen.items() if now - since >= REFUSED_SECONDS]
        await self.remove(key, old)
        left = {one: since for one, since in seen.items() if one not in old}
        if left:
            self._refused[key] = left

    async def refuse(self, key: str, signal_id: str, refusal: Mapping[str, Any]) -> bool:
        """
        Whoever has the thread has no room for a signal that it was offered.

        Returns:
            False if its sender may have been told by now that it is accepted.

        Raises:
            StorageError: It isn't certain which of both is so.
        """
        box = _box(key)
        value = await self._states.get_state(box, signal_id)
        if not isinstance(value, Mapping) or value.get("offered") is not True:
            return False
        return await self._states.compare_and_set(
            box, signal_id, expected=value, value={"refused": dict(refusal)}
        )

    async def insist(self, key: str, signal_id: str) -> Mapping[str, Any] | None:
        """
        Nobody has said what becomes of an offer: from now on it can't be refused any more.

        Returns:
            What it was refused with before, for at least ``REFUSED_SECONDS``; None if it wasn't.

        Raises:
            StorageError: It isn't certain which of both is so.
        """
        box = _box(key)
        while True:
            value = await self._states.get_state(box, signal_id)
            if not isinstance(value, Mapping):
                # It was answered.
                return None
            if isinstance(refusal := value.get("refused"), Mapping):
                return refusal
            if value.get("offered") is not True:
                return None
            firm = {name: one for name, one in value.items() if name != "offered"}
            if await self._states.compare_and_set(box, signal_id, expected=value, value=firm):
                return None

    def _read(self, value: Any) -> InboxEntry:
        signal = signal_from_wire(value["signal"], clock=self._clock)
        run_id = value.get("runId")
        return InboxEntry(
            signal=signal,
            agent_id=str(value["agentId"]),
            turn=bool(value.get("turn")),
            run_id=run_id if isinstance(run_id, str) else None,
            request_context=dict(value.get("requestContext") or {}),
            number=int(value.get("number") or 0),
            offered=value.get("offered") is True,
        )

    async def remove(self, key: str, signal_ids: Iterable[str]) -> None:
        """
        These signals are answered or cancelled; those that aren't there are no news.

        Raises:
            StorageError: The store didn't answer; some may still be there.
        """
        box, left = _box(key), iter(signal_ids)
        while some := list(islice(left, _AT_ONCE)):
            # Together: stores send what is asked for at once in one go.
            deleting = (self._states.delete_state(box, signal_id) for signal_id in some)
            for outcome in await asyncio.gather(*deleting, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome

    async def keys(self) -> list[str]:
        """
        The threads that may have waiting input.

        Raises:
            StorageError: The store didn't answer.
        """
        listed = await self._states.list_states(INBOX)
        self._empty = {name: seen for name, seen in self._empty.items() if name in listed}
        return [unquote(name) for name in listed]

    async def tidy(self, key: str) -> None:
        """
        Nothing waits for this listed thread: take it off the list once that has lasted.

        A sender lists the thread anew every half minute, so whoever lists it now has time to
        put its signal before anybody takes the mark away.
        """
        if key in self._refused:
            return
        name = _quoted(key)
        mark = await self._states.get_state(INBOX, name)
        now = self._clock.monotonic()
        seen, since = self._empty.get(name, (None, now))
        if seen != mark:
            self._empty[name] = (mark, now)
            return
        if now - since < _EMPTY_SECONDS:
            return
        if await self._states.compare_and_set(INBOX, name, expected=mark, value=None):
            await self._states.delete_state(INBOX, name)
        self._empty.pop(name, None)


def _quoted(key: str) -> str:
    return quote(key, safe="-_.!~*'()")


def _box(key: str) -> str:
    return f"{INBOX}:{_quoted(key)}"
