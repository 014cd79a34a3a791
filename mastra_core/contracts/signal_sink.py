"""Where a room that has an event for a thread puts it, without knowing threads.

``notifications`` (and later ``background``, ``schedules``) send through this; ``agent``
wires it to ``threads`` (signals.md 6).
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from mastra_core.wire.signals import Signal

__all__ = (
    "Accepted",
    "AcceptedAction",
    "IfActive",
    "IfIdle",
    "SendSignalResult",
    "SignalSink",
    "SignalSinks",
    "SignalTarget",
    "StateSignalResult",
    "ThreadActivity",
)

AcceptedAction = Literal["wake", "deliver", "persist", "discard", "blocked"]
ThreadActivity = Literal["active", "idle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IfActive:
    """What to do if a run is active on the thread."""

    behavior: Literal["deliver", "persist", "discard"] = "deliver"
    attributes: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IfIdle:
    """What to do if the thread is idle."""

    behavior: Literal["wake", "persist", "discard"] = "wake"
    attributes: Mapping[str, Any] | None = None
    #: Options for the run that a wake starts.
    stream_options: Mapping[str, Any] | None = None
    require_claimed_owner: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalTarget:
    """Which thread, and what to do there (signals.md 6.1)."""

    run_id: str | None = None
    resource_id: str | None = None
    thread_id: str | None = None
    if_active: IfActive = field(default_factory=IfActive)
    if_idle: IfIdle = field(default_factory=IfIdle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """How a signal was taken (signals.md 6.2)."""

    action: AcceptedAction
    run_id: str | None = None
    #: The output object of a wake.
    output: Any = None
    #: ``thread-blocked`` when blocked.
    reason: str | None = None


@dataclass(slots=True, kw_only=True)
class SendSignalResult:
    """What a send returns at once.

    ``accepted`` settles when routing is decided and raises if it failed; ``persisted`` is
    there only for a persist behaviour. Nobody has to await either.
    """

    signal: Signal
    accepted: Awaitable[Accepted]
    persisted: Awaitable[None] | None = None

    def __await__(self) -> Generator[None, None, SendSignalResult]:
        """Itself, at once: awaiting a send is harmless and waits for nothing (signals.md 6.2)."""
        yield from ()
        return self


@dataclass(slots=True, kw_only=True)
class StateSignalResult:
    """
    What became of a state that was sent (signals.md 13.4).

    A state that the thread knows already is ``skipped``; there is no signal then.
    """

    skipped: bool
    reason: Literal["unchanged"] | None = None
    signal: Signal | None = None
    accepted: Awaitable[Accepted] | None = None
    persisted: Awaitable[None] | None = None


class SignalSink(Protocol):
    """Sends signals into threads for one agent."""

    agent_id: str

    @property
    def stores_messages(self) -> bool:
        """
        Whether signals become message rows at all; an agent without memory keeps none, so
        nobody can find out later whether one was seen (notifications.md S21).
        """
        ...

    def thread_activity(self, *, resource_id: str, thread_id: str) -> ThreadActivity:
        """What this process knows about the thread (notifications.md 8)."""
        ...

    def send_signal(self, signal: Mapping[str, Any], target: SignalTarget) -> SendSignalResult:
        """
        Create and route a signal; the id of a created signal is kept.

        A signal whose id is already queued or stored for the thread is dropped
        (notifications.md S15): ``accepted`` then settles as the first one did.

        Raises:
            InvalidSignalError: The signal is malformed; nothing was done.
        """
        ...

    async def has_message(self, *, thread_id: str, message_id: str) -> bool:
        """Does a stored message row with this id exist in the thread?"""
        ...


@runtime_checkable
class SignalSinks(Protocol):
    """Finds the sinks of agents; the application object offers it to tools."""

    def signal_sink(self, agent_id: str) -> SignalSink | None:
        """Where signals of this agent go; None if it isn't known here."""
        ...
