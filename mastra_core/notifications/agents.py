"""Agents as the inbox knows them: where their signals go, and their policy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from mastra_core.base.tasks import call_maybe_async
from mastra_core.contracts.signal_sink import SignalSink
from mastra_core.notifications.policy import DeliveryPolicy

__all__ = ("AgentInbox", "FindAgent", "find_agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentInbox:
    """What delivering to one agent takes."""

    sink: SignalSink
    policy: DeliveryPolicy = field(default_factory=DeliveryPolicy)


#: The agent of an id; None if this process doesn't know it. May be async.
FindAgent = Callable[[str], AgentInbox | Awaitable[AgentInbox | None] | None]


async def find_agent(find: FindAgent, agent_id: str) -> AgentInbox | None:
    """Ask a look-up, whichever kind it is."""
    return await call_maybe_async(find, agent_id)
