"""What an application may say about work that an agent hands to another (streaming.md 1.1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ("Delegation", "DelegationChange", "DelegationEnd", "DelegationStart")


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationStart:
    """A sub-agent is about to be asked."""

    #: The name under which the supervisor knows it, and its id.
    agent_name: str
    agent_id: str
    supervisor_id: str
    prompt: str
    #: Of the supervisor's run and call.
    run_id: str
    tool_call_id: str
    #: The supervisor's transcript, as stored messages.
    messages: Sequence[dict[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationChange:
    """What the start hook wants otherwise; None leaves a member as it is."""

    #: False refuses: the sub-agent isn't asked, and the supervisor's model reads the reason.
    proceed: bool = True
    reason: str | None = None
    prompt: str | None = None
    instructions: str | None = None
    max_steps: int | None = None


@dataclass(slots=True, kw_only=True)
class DelegationEnd:
    """A sub-agent has ended, well or not."""

    agent_name: str
    agent_id: str
    supervisor_id: str
    prompt: str
    run_id: str
    tool_call_id: str
    #: What the supervisor's model gets; None after a failure.
    result: dict[str, Any] | None = None
    error: BaseException | None = None
    #: Said by :meth:`bail`.
    has_bailed: bool = field(default=False, init=False)

    def bail(self) -> None:
        """The supervisor's run ends after this step; its model isn't asked again."""
        self.has_bailed = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """
    Hooks around sub-agents, for one run of a supervisor.

    Args:
        on_start: May refuse or change a delegation. What it raises fails the call.
        on_complete: Sees how it ended; may ``bail()``, or return a text that the supervisor's
            model reads after the result. What it raises is logged.
        message_filter: Picks what the sub-agent sees of the supervisor's transcript.
    """

    on_start: (
        Callable[[DelegationStart], DelegationChange | Awaitable[DelegationChange | None] | None]
        | None
    ) = None
    on_complete: Callable[[DelegationEnd], str | Awaitable[str | None] | None] | None = None
    message_filter: (
        Callable[
            [DelegationStart],
            Sequence[dict[str, Any]] | Awaitable[Sequence[dict[str, Any]]],
        ]
        | None
    ) = None
