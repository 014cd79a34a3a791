"""Where the tracking of state lanes is kept (signals.md 13.2, G9).

Node reads and writes ``metadata.mastra.stateSignals`` of the thread's row, which nobody can
change without writing the row's other lanes, too. So of several Python writers those win that
compare and set one value in thread state, and the row follows: whoever wrote it looks again
whether the value has moved on, so that the last one to look leaves the newest.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mastra_core.base.isotime import to_iso_ms
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.contracts.storage import MemoryStorage, Storage, ThreadStateStorage
from mastra_core.errors import LeaseLostError, StorageConflictError
from mastra_core.messages.state_lanes import is_newer
from mastra_core.rules.owners import lost_if_refused
from mastra_core.wire.threads import Thread

__all__ = ("KnownLanes", "LaneTracker", "OpenChange")

logger = logging.getLogger(__name__)

#: Type of the value in thread state.
_STATE_TYPE: Final = "mastra_py_state_lanes"
#: Writers of one thread that may come between before one gives up.
_ATTEMPTS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenChange:
    """A change of a lane whose signal isn't accepted yet; ``confirm`` or ``undo`` follows."""

    #: The signal as others can send it, should the one who made the change have died.
    signal: Mapping[str, Any] | None = None
    #: What the lane said before.
    before: Mapping[str, Any] | None = None
    #: How many have tried to send it.
    tries: int = 1

    def to_wire(self) -> dict[str, Any]:
        """As it is stored."""
        known = {"signal": self.signal, "before": self.before, "tries": self.tries}
        return {name: value for name, value in known.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLanes:
    """What is known about the lanes of a thread at one moment."""

    thread: Thread
    #: The value in thread state that a change must find unchanged.
    stored: Any = None

    @property
    def value(self) -> Mapping[str, Any]:
        """The stored value, if it speaks of this thread and not of a deleted one of its id."""
        if not isinstance(self.stored, Mapping):
            return {}
        is_ours = self.stored.get("threadCreatedAt") == to_iso_ms(self.thread.created_at)
        return self.stored if is_ours else {}

    def tracking(self, lane: str) -> Mapping[str, Any] | None:
        """The newest tracking of a lane, whoever wrote it."""
        in_row = _row_lanes(self.thread).get(lane)
        in_state = self._entry(lane).get("tracking")
        row = in_row if isinstance(in_row, Mapping) else None
        state = in_state if isinstance(in_state, Mapping) else None
        if row is None or state is None:
            return row if state is None else state
        return row if is_newer(row, state) else state

    def opened(self, lane: str) -> OpenChange | None:
        """The last change, if nobody has confirmed it: its signal may be on its way, or lost."""
        entry = self._entry(lane)
        found = entry.get("open")
        if not found or is_newer(self.tracking(lane), entry.get("tracking") or {}):
            return None
        if not isinstance(found, Mapping):
            return OpenChange(tries=0)
        signal, before, tries = (found.get(name) for name in ("signal", "before", "tries"))
        return OpenChange(
            signal=signal if isinstance(signal, Mapping) else None,
            before=before if isinstance(before, Mapping) else None,
            tries=tries if isinstance(tries, int) else 0,
        )

    @property
    def lanes(self) -> Mapping[str, Any]:
        """``{tracking, open?}`` per lane, as thread state has it."""
        lanes = self.value.get("lanes")
        return lanes if isinstance(lanes, Mapping) else {}

    def is_as(self, other: KnownLanes, lane: str) -> bool:
        """Do both know the same of a lane?"""
        return self.tracking(lane) == other.tracking(lane) and (
            self._entry(lane) == other._entry(lane)
        )

    def _entry(self, lane: str) -> Mapping[str, Any]:
        entry = self.lanes.get(lane)
        return entry if isinstance(entry, Mapping) else {}


class LaneTracker:
    """Reads and changes the tracking of lanes in one store."""

    def __init__(
        self,
        memory: MemoryStorage,
        states: ThreadStateStorage | None,
        *,
        is_read_only: bool = False,
    ) -> None:
        self._memory = memory
        self._states = states
        self._is_read_only = is_read_only

    @classmethod
    def of(
        cls, storage: Storage, *, is_read_only: bool = False, fence: FenceToken | None = None
    ) -> LaneTracker:
        """
        The tracker of a store; without compare-and-set the last of two writers wins.

        Args:
            storage: Holds threads and their state.
            is_read_only: Changes are told, and nothing is written.
            fence: What the writes of a run carry that owns the thread.
        """
        can = storage.capabilities
        has_states = "thread_state" in can and "thread_state.compare_and_set" in can
        states = storage.thread_state if has_states else None
        memory = storage.memory if fence is None else storage.memory.guarded(fence)
        return cls(memory, states, is_read_only=is_read_only)

    async def load(self, thread_id: str, *, resource_id: str | None = None) -> KnownLanes | None:
        """What is known now; None if there is no such thread of this resource."""
        thread = await self._memory.get_thread_by_id(thread_id, resource_id=resource_id)
        if thread is None:
            return None
        stored = None
        if self._states is not None:
            stored = await self._states.get_state(thread_id, _STATE_TYPE)
        return KnownLanes(thread=thread, stored=stored)

    async def commit(
        self,
        known: KnownLanes,
        lane: str,
        tracking: Mapping[str, Any],
        *,
        opening: OpenChange | None = None,
    ) -> bool:
        """
        Write the tracking of a lane; False if somebody else has changed that lane meanwhile.

        Args:
            known: On what the decision rested.
            lane: Which lane; changes of others don't get lost.
            tracking: What is the case now.
            opening: The signal isn't accepted yet; ``confirm`` or ``undo`` follows.

        Raises:
            StorageConflictError: Other lanes of the thread change all the time.
            LeaseLostError: Another process has the thread; the lane is as it was, unless that
                one has changed it.
        """
        if self._is_read_only:
            return True
        thread_id = known.thread.id
        current: KnownLanes | None = known
        for _ in range(_ATTEMPTS):
            if current is None or not current.is_as(known, lane):
                return False
            entry: dict[str, Any] = {"tracking": dict(tracking)}
            if opening is not None:
                entry["open"] = opening.to_wire()
            if await self._exchange(current, lane, entry):
                try:
                    await self._write_row(current.thread, lane, tracking)
                except LeaseLostError:
                    # Only the row knows whose the thread is.
                    await self._put_back(current, lane, entry)
                    raise
                return True
            current = await self.load(thread_id)
        raise StorageConflictError(
            f"The lanes of thread {thread_id!r} change too often to write {lane!r}.",
            details={"thread_id": thread_id, "lane": lane},
        )

    async def confirm(self, thread_id: str, lane: str, signal_id: str) -> None:
        """The signal of the last change was accepted, whoever sent it."""
        for _ in range(_ATTEMPTS):
            current = await self._changed_by(thread_id, lane, signal_id)
            if current is None or current.opened(lane) is None:
                return
            if await self._exchange(current, lane, {"tracking": current.tracking(lane)}):
                return

    async def undo(self, thread_id: str, lane: str, signal_id: str, change: OpenChange) -> None:
        """The signal of a change was not accepted: what was so before is so again."""
        before = change.before
        for _ in range(_ATTEMPTS):
            current = await self._changed_by(thread_id, lane, signal_id)
            if current is None:
                return
            opened = current.opened(lane)
            if self._states is not None and (opened is None or opened.tries != change.tries):
                # Another sender has taken it over, and says what becomes of it.
                return
            entry = {"tracking": dict(before)} if before is not None else {}
            if await self._exchange(current, lane, entry):
                await self._write_row(current.thread, lane, before)
                return

    async def _changed_by(self, thread_id: str, lane: str, signal_id: str) -> KnownLanes | None:
        """What is known, if this signal was the last change of the lane."""
        current = await self.load(thread_id)
        tracking = current.tracking(lane) if current is not None else None
        is_last = tracking is not None and tracking.get("lastSignalId") == signal_id
        return current if is_last else None

    async def _put_back(self, before: KnownLanes, lane: str, entry: Mapping[str, Any]) -> None:
        """What we have just written is to have no effect."""
        for _ in range(_ATTEMPTS):
            current = await self.load(before.thread.id)
            if current is None or current.lanes.get(lane) != entry:
                return
            earlier = before.lanes.get(lane)
            if await self._exchange(current, lane, earlier if isinstance(earlier, Mapping) else {}):
                return

    async def _exchange(self, current: KnownLanes, lane: str, entry: Mapping[str, Any]) -> bool:
        if self._states is None:
            return True
        lanes = {**current.lanes, lane: dict(entry)}
        if not entry:
            del lanes[lane]
        value = {"threadCreatedAt": to_iso_ms(current.thread.created_at), "lanes": lanes}
        return await self._states.compare_and_set(
            current.thread.id, _STATE_TYPE, expected=current.stored, value=value
        )

    async def _write_row(
        self, thread: Thread, lane: str, tracking: Mapping[str, Any] | None
    ) -> None:
        """Let the thread's row say the same; again, if others have gone on meanwhile."""
        changed: dict[str, Mapping[str, Any] | None] = {lane: tracking}
        for _ in range(_ATTEMPTS):
            row = await self._memory.get_thread_by_id(thread.id)
            if row is None:
                return
            mastra = (row.metadata or {}).get("mastra")
            lanes = {**_row_lanes(row), **changed}
            shown = {name: dict(one) for name, one in lanes.items() if one is not None}
            members = dict(mastra) if isinstance(mastra, Mapping) else {}
            with lost_if_refused():
                await self._memory.update_thread(
                    thread.id, metadata={"mastra": {**members, "stateSignals": shown}}
                )
            if self._states is None:
                return
            newest = await self.load(thread.id)
            if newest is None:
                return
            changed = _behind(newest)
            if not changed:
                return
        logger.warning("row of a thread stays behind its lanes", extra={"thread_id": thread.id})


def _behind(known: KnownLanes) -> dict[str, Mapping[str, Any] | None]:
    """Lanes of which the thread's row doesn't say the newest."""
    in_row = _row_lanes(known.thread)
    trackings = {lane: entry.get("tracking") for lane, entry in known.lanes.items()}
    return {
        lane: tracking
        for lane, tracking in trackings.items()
        if lane not in in_row or is_newer(tracking, in_row[lane])
    }


def _row_lanes(thread: Thread) -> dict[str, Any]:
    mastra = (thread.metadata or {}).get("mastra")
    lanes = mastra.get("stateSignals") if isinstance(mastra, Mapping) else None
    return dict(lanes) if isinstance(lanes, Mapping) else {}
