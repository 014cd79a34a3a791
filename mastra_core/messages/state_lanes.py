"""State lanes as values: what is sent, what a thread shows of it, what changes (signals.md 13).

A lane is one named piece of state of a thread, such as ``browser``. It is told to the model by
state signals: snapshots, and deltas after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from mastra_core.base.isotime import to_iso_ms
from mastra_core.base.jsonjs import sanitize_copy
from mastra_core.errors import InvalidSignalError, shown
from mastra_core.messages.message_list import MessageList, message_of
from mastra_core.messages.signals import signal_from_message
from mastra_core.wire.signals import Signal

__all__ = (
    "LaneChange",
    "LaneHistory",
    "StateInput",
    "decide_change",
    "is_newer",
    "lane_facts",
    "lane_history",
    "lane_window",
    "state_input",
    "tracking_after",
)

#: Members of an input under wire and Python names.
_NAMES = {
    "id": "id",
    "cacheKey": "cache_key",
    "contents": "contents",
    "mode": "mode",
    "value": "value",
    "delta": "delta",
    "attributes": "attributes",
    "metadata": "metadata",
    "providerOptions": "provider_options",
    "tagName": "tag_name",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateInput:
    """What somebody says about a lane; checked, but no signal yet."""

    lane: str
    cache_key: str
    mode: Literal["snapshot", "delta"]
    #: The other members, under wire names.
    members: Mapping[str, Any]

    def signal_value(self, *, thread_id: str, version: int) -> dict[str, Any]:
        """The value that ``create_signal`` makes the signal of."""
        given = self.members
        metadata = dict(given.get("metadata") or {})
        mine = metadata.get("state")
        metadata["state"] = {
            **(mine if isinstance(mine, Mapping) else {}),
            "id": self.lane,
            "cacheKey": self.cache_key,
            "mode": self.mode,
            "threadId": thread_id,
            "version": version,
        }
        for name in ("value", "delta"):
            if name in given:
                metadata[name] = sanitize_copy(given[name])
        extra = {n: given[n] for n in ("attributes", "providerOptions", "tagName") if n in given}
        return {"type": "state", "contents": given["contents"], "metadata": metadata, **extra}


def state_input(value: Mapping[str, Any], *, lane: str | None = None) -> StateInput:
    """
    Read what a caller or a processor says about a lane.

    Args:
        value: Members of signals.md 13.1, under wire or Python names.
        lane: The lane if the value doesn't name one.

    Raises:
        InvalidSignalError: A member is missing, unknown or of a wrong kind.
    """
    if not isinstance(value, Mapping):
        raise InvalidSignalError(f"A state signal is a mapping, not {shown(value)}.")
    python = {name: wire for wire, name in _NAMES.items()}
    members: dict[str, Any] = {}
    for name, member in value.items():
        if name == "transient":
            raise InvalidSignalError("state signals cannot be transient")
        wire = name if name in _NAMES else python.get(name)
        if wire is None:
            raise InvalidSignalError(
                f"A state signal has no member {shown(name)}. Known: {', '.join(python)}."
            )
        if member is not None or wire in ("value", "delta"):
            members[wire] = member
    lane_id = members.pop("id", lane)
    if not isinstance(lane_id, str) or not lane_id:
        raise InvalidSignalError("state signal id is required")
    cache_key = members.pop("cacheKey", None)
    if not isinstance(cache_key, str) or not cache_key:
        raise InvalidSignalError("state signal cacheKey is required")
    mode = members.pop("mode", "snapshot")
    if mode not in ("snapshot", "delta"):
        raise InvalidSignalError(
            f"The mode of a state signal is snapshot or delta, not {shown(mode)}."
        )
    if "contents" not in members:
        raise InvalidSignalError("A state signal needs contents: text or a list of parts.")
    if not isinstance(members.get("metadata", {}), Mapping):
        raise InvalidSignalError("The metadata of a state signal must be a mapping.")
    return StateInput(lane=lane_id, cache_key=cache_key, mode=mode, members=members)


# -- what a thread shows ------------------------------------------------------------------------


def lane_facts(signal: Signal) -> Mapping[str, Any] | None:
    """``{id, threadId, cacheKey, version, mode}`` of a state signal; None for another one."""
    facts = (signal.metadata or {}).get("state") if signal.type == "state" else None
    return facts if isinstance(facts, Mapping) else None


def _is_snapshot(signal: Signal) -> bool:
    facts = lane_facts(signal)
    return facts is not None and facts.get("mode", "snapshot") == "snapshot"


def lane_window(messages: MessageList, lane: str, thread_id: str) -> list[Signal]:
    """The state signals of a lane and thread that a message list holds, in time order."""
    found = []
    for entry in messages.messages:
        if entry.role != "signal":
            continue
        signal = signal_from_message(message_of(entry, messages))
        facts = lane_facts(signal)
        if facts is not None and (facts.get("id"), facts.get("threadId")) == (lane, thread_id):
            found.append(signal)
    # The order of the list decides between equal times.
    return sorted(found, key=lambda signal: signal.created_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneHistory:
    """What the model can know about a lane (signals.md 13.5)."""

    #: Is there a snapshot in the messages that the model is shown?
    has_snapshot: bool
    active: Sequence[Signal]
    last_snapshot: Signal | None
    deltas: Sequence[Signal]


def lane_history(window: Sequence[Signal], earlier: Iterable[Signal] = ()) -> LaneHistory:
    """
    The history of a lane.

    Args:
        window: Its state signals among the messages that the model is shown.
        earlier: Tracked ones that were loaded since the window has no snapshot; of two with
            one id the window's counts.
    """
    merged = {signal.id: signal for signal in (*earlier, *window)}
    active = sorted(merged.values(), key=lambda signal: signal.created_at)
    last = next((signal for signal in reversed(active) if _is_snapshot(signal)), None)
    after = active[active.index(last) + 1 :] if last is not None else active
    return LaneHistory(
        has_snapshot=any(map(_is_snapshot, window)),
        active=active,
        last_snapshot=last,
        deltas=[signal for signal in after if not _is_snapshot(signal)],
    )


# -- the apply rule (signals.md 13.3) -----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneChange:
    """A state that has to be told, and the version that it gets."""

    version: int


def decide_change(
    state: StateInput, tracking: Mapping[str, Any] | None, window: Sequence[Signal] | None
) -> LaneChange | None:
    """
    Does this state have to be told? None if it is known.

    Args:
        state: What is the case.
        tracking: What the thread's row says about the lane.
        window: The lane's signals that the model is shown; None if nobody knows (external).
    """
    known = tracking or {}
    has_copy = any(
        facts.get("cacheKey") == state.cache_key and facts.get("mode", "snapshot") == state.mode
        for facts in map(lane_facts, window or ())
        if facts is not None
    )
    mode = known.get("currentMode")
    is_current = known.get("currentCacheKey") == state.cache_key and (
        mode == state.mode or (mode is None and has_copy)
    )
    if is_current and (window is None or has_copy):
        return None
    version = known.get("version")
    number = version if isinstance(version, int) else 0
    return LaneChange(version=(number or 1) if is_current else number + 1)


def tracking_after(
    signal: Signal,
    tracking: Mapping[str, Any] | None,
    window: Sequence[Signal] | None,
    *,
    now: datetime,
) -> dict[str, Any]:
    """What the thread's row says after this signal (signals.md 13.2); unknown members stay."""
    facts = lane_facts(signal)
    assert facts is not None
    after: dict[str, Any] = {
        **(tracking or {}),
        "currentCacheKey": facts["cacheKey"],
        "currentMode": facts["mode"],
        "version": facts["version"],
        "lastSignalId": signal.id,
        "updatedAt": to_iso_ms(now),
        "activeCopies": [_copy(one) for one in (*(window or ()), signal)],
    }
    if facts["mode"] == "snapshot":
        after["lastSnapshotSignalId"] = signal.id
    return after


def _copy(signal: Signal) -> dict[str, Any]:
    facts = lane_facts(signal) or {}
    known = {n: facts[n] for n in ("cacheKey", "mode", "version") if facts.get(n) is not None}
    return {"id": signal.id, **known}


def is_newer(left: Mapping[str, Any] | None, right: Mapping[str, Any] | None) -> bool:
    """Was ``left`` written after ``right``? Versions first; equal ones by their time."""

    def rank(tracking: Mapping[str, Any] | None) -> tuple[int, str]:
        version = (tracking or {}).get("version")
        stamp = (tracking or {}).get("updatedAt")
        number = version if isinstance(version, int) else 0
        return number, stamp if isinstance(stamp, str) else ""

    return rank(left) > rank(right)
