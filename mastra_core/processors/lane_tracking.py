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
from mastra_core.errors import StorageConflictError
from mastra_core.messages.state_lanes import is_newer
from mastra_core.rules.owners import lost_if_refused
from mastra_core.wire.threads import Thread

__all__ = ("KnownLanes", "LaneTracker")

logger = logging.getLogger(__name__)

#: Type of the value in thread state.
_STATE_TYPE: Final = "mastra_py_state_lanes"
#: Writers of one thread that may come between before one gives up.
_ATTEMPTS: Final = 64


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

    def is_open(self, lane: str) -> bool:
        """Was the last change never confirmed? Then its signal may have got lost."""
        entry = self._entry(lane)
        return bool(entry.get("open")) and not is_newer(
            self.tracking(lane), entry.get("tracking") or {}
        )

    @property
    def lanes(self) -> Mapping[str, Any]:
        """``{tracking, open?}`` per lane, as thread state has it."""
        lanes = self.value.get("lanes")
        return lanes if isinstance(lanes, Mapping) else {}

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
        is_open: bool = False,
    ) -> bool:
        """
        Write the tracking of a lane; False if somebody else has changed that lane meanwhile.

        Args:
            known: On what the decision rested.
            lane: Which lane; changes of others don't get lost.
            tracking: What is the case now.
            is_open: The signal isn't accepted yet; ``confirm`` follows.

        Raises:
            StorageConflictError: Other lanes of the thread change all the time.
        """
        if self._is_read_only:
            return True
        thread_id = known.thread.id
        expected = known.tracking(lane)
        current: KnownLanes | None = known
        for _ in range(_ATTEMPTS):
            if current is None or current.tracking(lane) != expected:
                return False
            entry: dict[str, Any] = {"tracking": dict(tracking)}
            if is_open:
                entry["open"] = True
            if await self._exchange(current, lane, entry):
                await self._write_row(current.thread, lane, tracking)
                return True
            current = await self.load(thread_id)
        raise StorageConflictError(
            f"The lanes of thread {thread_id!r} change too often to write {lane!r}.",
            details={"thread_id": thread_id, "lane": lane},
        )

    async def confirm(self, thread_id: str, lane: str, signal_id: str) -> None:
        """The signal of the last change was accepted."""
        await self._settle(thread_id, lane, signal_id, previous=None, is_undone=False)

    async def undo(
        self, thread_id: str, lane: str, signal_id: str, previous: Mapping[str, Any] | None
    ) -> None:
        """The signal of the last change was not accepted: what was so before is so again."""
        await self._settle(thread_id, lane, signal_id, previous=previous, is_undone=True)

    async def _settle(
        self,
        thread_id: str,
        lane: str,
        signal_id: str,
        *,
        previous: Mapping[str, Any] | None,
        is_undone: bool,
    ) -> None:
        for _ in range(_ATTEMPTS):
            current = await self.load(thread_id)
            tracking = current.tracking(lane) if current is not None else None
            if current is None or tracking is None or tracking.get("lastSignalId") != signal_id:
                return
            if not is_undone:
                if await self._exchange(current, lane, {"tracking": dict(tracking)}):
                    return
                continue
            entry = {"tracking": dict(previous)} if previous is not None else {}
            if await self._exchange(current, lane, entry):
                await self._write_row(current.thread, lane, previous)
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
