"""An agent as threads and the inbox see it, and the values that callers send to it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mastra_core.agent.arguments import check_ids
from mastra_core.agent.options import check_options
from mastra_core.agent.run import RunBuilder
from mastra_core.agent.until_idle import started
from mastra_core.contracts.signal_sink import (
    IfActive,
    IfIdle,
    SendSignalResult,
    SignalTarget,
    StateSignalResult,
    ThreadActivity,
)
from mastra_core.errors import InvalidSignalError, RunArgumentError, shown
from mastra_core.messages.detect import MessageInput
from mastra_core.messages.markup import check_attribute_names
from mastra_core.processors.lane_tracking import LaneTracker
from mastra_core.streaming.output import ModelOutput
from mastra_core.threads.state_signals import StateRoutes
from mastra_core.wire.messages import Message
from mastra_core.wire.signals import Signal

if TYPE_CHECKING:
    from mastra_core.agent.agent import Agent

__all__ = ("AgentTurns", "signal_from_user", "target_from")


class AgentTurns:
    """An agent as the thread runtime and the inbox see it."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.agent_id = agent.id

    @property
    def id(self) -> str:
        """The agent's id."""
        return self._agent.id

    async def start_turn(
        self,
        signals: Sequence[Signal],
        *,
        run_id: str,
        thread_id: str,
        resource_id: str,
        stream_options: Mapping[str, Any],
    ) -> ModelOutput:
        """Start a run that these signals open."""
        thread = {"thread_id": thread_id, "resource_id": resource_id}
        builder = self._builder(run_id, {**thread, **stream_options})
        return await started(builder, builder.start_with_signals(signals), **thread)

    async def continue_turn(
        self,
        messages: MessageInput,
        *,
        run_id: str,
        thread_id: str,
        resource_id: str,
        stream_options: Mapping[str, Any],
    ) -> ModelOutput:
        """Start a run with messages."""
        thread = {"thread_id": thread_id, "resource_id": resource_id}
        builder = self._builder(run_id, {**thread, **stream_options})
        return await started(builder, builder.start_reserved(messages), **thread)

    def _builder(self, run_id: str, options: Mapping[str, Any]) -> RunBuilder:
        return RunBuilder(self._agent, self._agent.options({**options, "run_id": run_id}))

    async def cancel_parked(self, run_id: str) -> None:
        """End a run that waits for data, without an answer."""
        await self._agent.cancel_run(run_id)

    async def is_parked(self, run_id: str) -> bool:
        """Does this run, which was parked here, still wait for an answer?"""
        snapshots = self._agent.host.parking
        return snapshots is not None and await snapshots.is_waiting(run_id)

    def store_message(self, message: Message) -> Awaitable[None] | None:
        """Store one row of a thread; None without memory."""
        memory = self._agent.memory
        return None if memory is None else memory.add_row(message)

    @property
    def stores_messages(self) -> bool:
        """Whether the agent has a memory."""
        return self._agent.memory is not None

    async def has_message(self, *, thread_id: str, message_id: str) -> bool:
        """Is there a stored row with this id in the thread?"""
        memory = self._agent.memory
        if memory is None:
            return False
        found = await memory.load([message_id])
        return any(message.thread_id == thread_id for message in found)

    async def answered(self, *, thread_id: str, message_ids: Sequence[str]) -> set[str]:
        """Which of these have a stored row that an answer follows?"""
        memory = self._agent.memory
        return set() if memory is None else await memory.answered(thread_id, message_ids)

    def thread_activity(self, *, resource_id: str, thread_id: str) -> ThreadActivity:
        """Active or idle, as far as this process knows."""
        is_active = self._agent.host.threads.is_active(resource_id, thread_id)
        return "active" if is_active else "idle"

    def send_signal(
        self, signal: Mapping[str, Any] | Signal, target: SignalTarget
    ) -> SendSignalResult:
        """Create and route a signal."""
        if not isinstance(signal, Mapping | Signal):
            raise InvalidSignalError(f"A signal must be a mapping, not {shown(signal)}.")
        return self._agent.host.threads.send_signal(self, signal, target)

    def queue_signal(
        self, signal: Mapping[str, Any] | Signal, target: SignalTarget, *, owner_id: str | None
    ) -> SendSignalResult:
        """Create a signal that gets a run of its own."""
        if not isinstance(signal, Mapping | Signal):
            raise InvalidSignalError(f"A signal must be a mapping, not {shown(signal)}.")
        return self._agent.host.threads.queue_signal(self, signal, target, owner_id=owner_id)

    async def send_state_signal(
        self, state: Mapping[str, Any], target: SignalTarget
    ) -> StateSignalResult:
        """Tell a state lane what is the case, unless the thread knows."""
        host = self._agent.host
        has_memory = self._agent.memory is not None
        return await host.threads.states.send(
            state,
            target,
            tracker=LaneTracker.of(host.storage) if has_memory else None,
            routes=StateRoutes(
                would_take=lambda: host.threads.would_take(self, target),
                send=lambda signal: host.threads.send_created(self, signal, target),
                repeat=lambda signal: host.threads.send_signal(self, signal, target),
            ),
        )


def signal_from_user(message: Any) -> dict[str, Any]:
    """The signal of what a user wrote; type and tag are always ``user`` (signals.md 2.3)."""
    if isinstance(message, Mapping):
        allowed = {"contents", "attributes", "metadata", "providerOptions", "provider_options"}
        unknown = sorted(set(message) - allowed)
        if unknown:
            raise RunArgumentError(
                f"A message has no member {unknown[0]!r}. Known: {', '.join(sorted(allowed))}.",
                id="AGENT_INVALID_MESSAGE",
            )
        return {**message, "type": "user", "tagName": "user"}
    return {"contents": message, "type": "user", "tagName": "user"}


def target_from(given: Mapping[str, Any]) -> SignalTarget:
    """
    Read a target from keyword arguments.

    Raises:
        RunArgumentError: A member, a behaviour or an option is unknown, or of a wrong kind.
        InvalidSignalError: An attribute can't be rendered (decisions.md 17).
    """
    members = {name: value for name, value in given.items() if value is not None}
    for name in ("run_id", "thread_id", "resource_id"):
        # An empty one is like an absent one: who needs it says so.
        if members.get(name) == "":
            del members[name]
        elif name in members:
            check_ids(**{name: members[name]})
    try:
        for name, kind in (("if_active", IfActive), ("if_idle", IfIdle)):
            if isinstance(members.get(name), Mapping):
                members[name] = kind(**members[name])
            elif not isinstance(members.get(name, kind()), kind):
                raise _wrong_target(f"{name} must be a mapping, not {shown(members[name])}.")
        target = SignalTarget(**members)
    except TypeError as exc:
        known = ", ".join(inspect.signature(SignalTarget).parameters)
        raise _wrong_target(f"Unknown target member. Known: {known}.") from exc
    _check_branch("if_active", target.if_active, ("deliver", "persist", "discard"))
    _check_branch("if_idle", target.if_idle, ("wake", "persist", "discard"))
    options = target.if_idle.stream_options
    if options is not None and not isinstance(options, Mapping):
        raise _wrong_target(f"stream_options must be a mapping, not {shown(options)}.")
    check_options(options or {})
    return target


def _check_branch(name: str, branch: IfActive | IfIdle, behaviors: Sequence[str]) -> None:
    if branch.behavior not in behaviors:
        raise _wrong_target(
            f"Unknown behavior {shown(branch.behavior)} of {name}. "
            f"Expected one of {', '.join(behaviors)}."
        )
    check_attribute_names(branch.attributes)


def _wrong_target(text: str) -> RunArgumentError:
    return RunArgumentError(text, id="AGENT_INVALID_TARGET")
