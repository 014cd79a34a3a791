"""Everything that one run needs, resolved before it starts."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.telemetry import NoopTracer, Tracer
from mastra_core.contracts.background import RunBackground
from mastra_core.contracts.completion import IterationState, TaskCheck
from mastra_core.contracts.delegation import Delegation
from mastra_core.contracts.model import Model, ToolChoice
from mastra_core.contracts.tool import RequireApproval, Tool
from mastra_core.contracts.tool_hooks import PayloadTransform, ToolHooks
from mastra_core.processors.lane_tracking import LaneTracker
from mastra_core.processors.runner import RunProcessors
from mastra_core.streaming.objects import StructuredOutput
from mastra_core.wire.messages import Message
from mastra_core.wire.signals import Signal
from mastra_core.workflows.agent_snapshot import CallOutcome
from mastra_core.workflows.snapshot_store import AgentSnapshots, HeldClaim

__all__ = (
    "GUARDED_TYPES",
    "RETRY_HOOKS",
    "Callbacks",
    "MessageSaver",
    "NoSignals",
    "RunSetup",
    "SignalSource",
    "SuspendedCalls",
    "TakenCall",
    "ThreadTitle",
)

logger = logging.getLogger(__name__)

#: Hooks that may have a step repeated unless the agent says otherwise.
RETRY_HOOKS: Final = frozenset(
    {
        "process_input_step",
        "process_llm_request",
        "process_output_stream",
        "process_output_step",
    }
)


#: What comes from outside; the rest is said by the application itself.
GUARDED_TYPES: Final = ("user", "notification")


class SignalSource(Protocol):
    """Where a run gets the signals that arrived for it (signals.md 9)."""

    def drain_pre_run(self) -> list[Signal]:
        """Signals for the first request of this run."""
        ...

    def drain_pending(self) -> list[Signal]:
        """Signals that arrived since the last drain; nothing for an aborted run."""
        ...

    def put_back(self, signals: Sequence[Signal]) -> None:
        """These were drained and didn't enter the transcript: they wait again."""
        ...

    def assert_owned(self) -> None:
        """
        Before a write to the thread: it is still this run's.

        Raises:
            LeaseLostError: Another process has it.
        """
        ...

    async def are_kept(self) -> bool:
        """
        Would whoever has the thread next answer what this run was to answer?

        Raises:
            StorageError: Nobody knows.
        """
        ...


class NoSignals:
    """A run that no signal can reach."""

    def drain_pre_run(self) -> list[Signal]:
        """Nothing."""
        return []

    def drain_pending(self) -> list[Signal]:
        """Nothing."""
        return []

    def put_back(self, signals: Sequence[Signal]) -> None:
        """There were none."""

    def assert_owned(self) -> None:
        """Nobody can take what isn't held."""

    async def are_kept(self) -> bool:
        """There is nothing to answer."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenCall:
    """A parked call of an earlier run that the run at hand carries out."""

    outcome: CallOutcome
    #: What it was called with, and what it is answered with.
    args: Any
    data: Any


class SuspendedCalls(Protocol):
    """Calls of earlier runs that the model may answer (streaming.md 6.4)."""

    def instruction(self) -> str:
        """What the model is told about them; empty if none is left."""
        ...

    def schema_of(self, tool_name: str) -> dict[str, Any]:
        """Further members of a tool's arguments."""
        ...

    def answered_by(self, tool_name: str, args: Any) -> str | None:
        """The call that these arguments answer; None if they answer none."""
        ...

    def take(
        self, tool_call_id: str, args: Mapping[str, Any]
    ) -> AbstractAsyncContextManager[TakenCall]:
        """
        The parked call, ours to run; its run is over afterwards.

        Raises:
            MastraError: It is not ours to answer; it waits on.
        """
        ...


class ThreadTitle(Protocol):
    """Gives the thread of a run a title (streaming.md 5.5)."""

    @property
    def is_told(self) -> bool:
        """Does the end of the run wait for it?"""
        ...

    def start(self, said: Callable[[], Sequence[str]]) -> None:
        """Make it while the run ends."""
        ...

    async def make(self, said: Callable[[], Sequence[str]]) -> str | None:
        """The title that was stored, or None."""
        ...


class MessageSaver(Protocol):
    """Stores messages of the run's thread."""

    async def save(self, messages: Sequence[Message]) -> None:
        """Upsert them in one transaction."""
        ...

    async def load(self, message_ids: Sequence[str]) -> list[Message]:
        """Those that exist."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """Observers of one run; what they raise is logged and changes nothing."""

    on_chunk: Callable[[dict[str, Any]], Awaitable[None] | None] | None = None
    on_step_finish: Callable[[Mapping[str, Any]], Awaitable[None] | None] | None = None
    on_iteration_complete: Callable[[IterationState], Any] | None = None
    on_finish: Callable[[Mapping[str, Any]], Awaitable[None] | None] | None = None
    on_error: Callable[[Mapping[str, Any]], Awaitable[None] | None] | None = None
    on_abort: Callable[[Mapping[str, Any]], Awaitable[None] | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetup:
    """One run, ready to start; values that don't change while it goes on."""

    agent_id: str
    run_id: str
    clock: Clock
    ids: Ids
    #: The model, then those to try if it fails.
    models: Sequence[Model]
    tools: Mapping[str, Tool] = field(default_factory=dict)
    active_tools: Sequence[str] | None = None
    tool_choice: ToolChoice = "auto"
    #: What the run is to end with.
    structured: StructuredOutput | None = None
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    provider_options: Mapping[str, Any] = field(default_factory=dict)
    max_steps: int | None = None
    stop_when: Sequence[Callable[[Sequence[Mapping[str, Any]]], bool | Awaitable[bool]]] = ()
    require_tool_approval: RequireApproval = False
    tool_call_concurrency: int = 10
    #: ``called``: only tools that were called decide whether calls run one at a time.
    tool_call_strategy: Literal["available", "called"] = "available"
    tool_hooks: ToolHooks = field(default_factory=ToolHooks)
    #: What of tool payloads others may see, for all tools of the run.
    payload_transform: PayloadTransform | None = None
    #: When the run may end.
    task_check: TaskCheck | None = None
    #: Store after each step, too.
    save_per_step: bool = False
    include_raw_chunks: bool = False
    #: Calls that are resumed may run again although nobody knows whether they ran.
    rerun_unknown: bool = False
    actor: Any = None
    request_context: dict[str, Any] = field(default_factory=dict)
    signals: SignalSource = field(default_factory=NoSignals)
    #: Signals that opened the run and stand in its message list already.
    opening_signals: Sequence[Signal] = ()
    saver: MessageSaver | None = None
    #: Makes the thread's title; None if nobody does.
    title: ThreadTitle | None = None
    #: What waits in the thread and may be answered by the model; None if nothing.
    suspended: SuspendedCalls | None = None
    snapshots: AgentSnapshots | None = None
    #: The claim under which a resumed run goes on.
    claim: HeldClaim | None = None
    processors: RunProcessors | None = None
    #: How often processors may have a step repeated; None: 3 with error processors, else 0.
    max_processor_retries: int | None = None
    #: Hooks whose wish for a repeat is heard (processors.md 5.1).
    retry_hooks: Collection[str] = RETRY_HOOKS
    #: What its agent has been warned of already.
    warned: set[str] = field(default_factory=set)
    #: Where the state lanes of threads are tracked; None for an agent without memory.
    lanes: LaneTracker | None = None
    #: Turns what an input-step hook named into the thing itself.
    find_model: Callable[[Model | str], Model] | None = None
    callbacks: Callbacks = field(default_factory=Callbacks)
    #: Measures steps, requests and calls.
    tracer: Tracer = field(default_factory=NoopTracer)
    #: Hooks around sub-agents.
    delegation: Delegation | None = None
    user_turn_first: bool = True
    mastra: Any = None
    #: How many requests input may take the place of; None: any number (signals.md G20).
    max_interruptions: int | None = None
    #: For so long no more input must come before it takes the place of a request.
    interruption_debounce: float = 0.0
    #: Types of signals that pass the input processors also in mid-run (signals.md G19).
    guard_signals: bool | Collection[str] = GUARDED_TYPES
    #: What the run may hand over; None if nothing.
    background: RunBackground | None = None

    def offers(self, tool_name: str) -> bool:
        """May the model call this tool?"""
        active = self.active_tools
        return tool_name in self.tools and (active is None or tool_name in active)

    def warn_once(self, what: str, text: str) -> None:
        """Say something about the agent, the first time that it is so."""
        if what not in self.warned:
            self.warned.add(what)
            logger.warning(text, extra={"agent": self.agent_id})
