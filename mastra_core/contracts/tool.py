"""A tool that a model may call (streaming.md 6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from mastra_core.base.telemetry import NOOP_SPAN, Attribute, NoopTracer, Span, Tracer
from mastra_core.contracts.background import BackgroundContext
from mastra_core.contracts.delegation import Delegation

__all__ = (
    "DelegatedCall",
    "RequireApproval",
    "Tool",
    "ToolContext",
    "ToolObserver",
    "ToolWriter",
)

logger = logging.getLogger(__name__)

RequireApproval = bool | Callable[[Any, "ToolContext"], "bool | Awaitable[bool]"]


class ToolWriter(Protocol):
    """Writes into the stream of the run while a tool executes (streaming.md 6.6)."""

    async def write(self, value: Any) -> None:
        """One ``tool-output`` chunk; streamed, not stored."""
        ...

    async def custom(self, chunk: Mapping[str, Any]) -> None:
        """A chunk as given; a ``data-*`` chunk is stored unless ``transient`` is true."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegatedCall:
    """
    A parked call of another run, for which a call of this run waits (snapshots.md 8.3).

    A tool that runs a sub-agent suspends with it; whoever answers the outer call answers this.
    """

    run_id: str
    tool_call_id: str | None
    tool_name: str
    args: Any = None
    needs_approval: bool = False
    #: JSON text of the schema of the answer.
    resume_schema: str = "{}"
    #: Where the other run keeps its messages; None if nowhere.
    thread_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolObserver:
    """Measures parts of a call, and notes what happens in it (streaming.md 6.2)."""

    tracer: Tracer = field(default_factory=NoopTracer)
    #: The call itself.
    current_span: Span = NOOP_SPAN

    def span(
        self, name: str, attributes: Mapping[str, Attribute] | None = None
    ) -> AbstractContextManager[Span]:
        """Measure the block, below the call."""
        return self.tracer.span(name, attributes)

    def log(
        self, message: str, data: Mapping[str, Attribute] | None = None, *, level: str = "info"
    ) -> None:
        """
        Note something, in the log and at the call.

        Args:
            message: What happened, the same text each time.
            data: The facts.
            level: ``debug``, ``info``, ``warning`` or ``error``.
        """
        number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
        logger.log(number, message, extra={"data": dict(data or {})})
        self.current_span.add_event(message, {"level": level, **(data or {})})


@dataclass(slots=True, kw_only=True)
class ToolContext:
    """What a running tool knows and may do (streaming.md 6.2)."""

    agent_id: str
    run_id: str
    tool_call_id: str
    tool_name: str
    writer: ToolWriter
    #: ``suspend(payload=None, *, resume_label=None, delegated=None)``: record a payload and park
    #: the run; return right after it.
    suspend: Callable[..., Awaitable[None]]
    thread_id: str | None = None
    resource_id: str | None = None
    #: What the call was resumed with; None on the first execution.
    resume_data: Any = None
    #: Whether there is resume data at all (it may be falsy).
    is_resumed: bool = False
    #: The payload of the earlier ``suspend`` of this call.
    suspend_payload: Any = None
    #: The call of another run that this one was parked for, when it is resumed.
    delegated: DelegatedCall | None = None
    #: Whoever resumed it wants it to run although nobody knows whether it ran.
    rerun_unknown: bool = False
    #: ``<run_id>:<tool_call_id>``, the same on every execution of this call.
    idempotency_key: str = ""
    request_context: dict[str, Any] = field(default_factory=dict)
    #: Makes the transcript when somebody asks for it.
    load_messages: Callable[[], list[dict[str, Any]]] = list
    abort: asyncio.Event | None = None
    #: Measures and notes what the call does.
    observe: ToolObserver = field(default_factory=ToolObserver)
    #: On whose behalf the run goes on, as the caller said.
    actor: Any = None
    #: Store what the run has said so far.
    flush_messages: Callable[[], Awaitable[None]] | None = None
    #: The application object; None for a standalone agent.
    mastra: Any = None
    #: Hooks and policy of the run, for tools that run other agents.
    delegation: Delegation | None = None
    require_tool_approval: RequireApproval = False
    #: The run ends after this step; the model isn't asked again.
    end_run: Callable[[], None] = lambda: None
    #: What a body that runs as a background task knows about it; None in a run.
    background: BackgroundContext | None = None

    @property
    def is_background_task(self) -> bool:
        """Does the body run detached from its run?"""
        return self.background is not None

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The transcript of the run so far, as stored messages; a copy."""
        return self.load_messages()


@runtime_checkable
class Tool(Protocol):
    """Anything an agent can offer to its model."""

    id: str
    description: str
    #: May the call run before somebody approved it?
    require_approval: RequireApproval
    #: Running it twice with one idempotency key does no harm (snapshots.md G4).
    idempotent: bool
    #: It may call ``suspend``; declared so that calls run one at a time.
    can_suspend: bool

    def input_json_schema(self) -> dict[str, Any]:
        """JSON schema of the arguments; ``{}`` accepts anything."""
        ...

    def resume_json_schema(self) -> dict[str, Any] | None:
        """JSON schema of resume data; None if the tool never suspends."""
        ...

    def parse_input(self, value: Any) -> Any:
        """
        Validate arguments leniently (streaming.md 6.3).

        Raises:
            ToolInputError: They don't fit; ``details`` name the fields.
        """
        ...

    def parse_resume(self, value: Any) -> Any:
        """
        Validate resume data.

        Raises:
            ToolInputError: It doesn't fit.
        """
        ...

    @property
    def execute(self) -> Callable[[Any, ToolContext], Awaitable[Any]] | None:
        """Runs the tool; None for a client tool, whose call ends the loop."""
        ...
