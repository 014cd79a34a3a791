"""Calls of earlier runs that wait for data, which the model may give (streaming.md 2.2, 6.4).

The user answers in a message; the model calls the tool again and says which call it answers. The
parked run is claimed, so that nobody else answers it, and is over when the tool has run: the run
at hand goes on in its place. Approvals are never answered like this.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from mastra_core.base.jsonjs import encode
from mastra_core.contracts.tool import Tool
from mastra_core.errors import NotSuspendedError
from mastra_core.loop.setup import TakenCall
from mastra_core.messages.message_list import MessageList
from mastra_core.workflows.resume import ClaimedRun, ResumeRequest

if TYPE_CHECKING:
    from mastra_core.agent.agent import Agent

__all__ = ("WaitingCalls", "waiting_calls")

_RUN: Final = "suspendedToolRunId"
_CALL: Final = "suspendedToolCallId"
_DATA: Final = "resumeData"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCalls:
    """The calls of one thread that the model may answer; ``loop.setup.SuspendedCalls``."""

    agent: Agent
    messages: MessageList
    #: Those of the run at hand.
    tools: Mapping[str, Tool]
    #: What the stored messages say of each, by the id of the call.
    entries: Mapping[str, Mapping[str, Any]]
    _taken: set[str] = field(default_factory=set)

    def instruction(self) -> str:
        """What the model is told about them."""
        listed = "\n".join(
            f"- tool {_tool_of(entry)}, {_CALL} {call_id}, {_RUN} {entry['runId']}: "
            f"it asked {encode(entry.get('suspendPayload'))}; the answer has to fit {entry.get('resumeSchema') or '{}'}"
            for call_id, entry in self.entries.items()
            if call_id not in self._taken
        )
        if not listed:
            return ""
        return (
            "These tool calls wait for an answer of the user:\n"
            f"{listed}\n"
            f"If the user's message answers one, call its tool again with {_CALL}, {_RUN} and "
            f"{_DATA}. Otherwise leave these members out."
        )

    def schema_of(self, tool_name: str) -> dict[str, Any]:
        """Further members of a tool's arguments; empty if none of its calls waits."""
        if not any(_tool_of(entry) == tool_name for entry in self.entries.values()):
            return {}
        text = {"type": "string", "description": "Only to answer a call that waits."}
        return {_CALL: text, _RUN: text, _DATA: {"description": "The answer."}}

    def answered_by(self, tool_name: str, args: Any) -> str | None:
        """The call that these arguments answer; None if they answer none."""
        if not isinstance(args, Mapping) or _DATA not in args:
            return None
        call_id = args.get(_CALL)
        entry = self.entries.get(call_id) if isinstance(call_id, str) else None
        if entry is None or _tool_of(entry) != tool_name or entry["runId"] != args.get(_RUN):
            return None
        return str(call_id)

    @asynccontextmanager
    async def take(self, tool_call_id: str, args: Mapping[str, Any]) -> AsyncIterator[TakenCall]:
        """
        The parked call, ours to run; its run is over afterwards.

        Raises:
            MastraError: It doesn't wait any more, somebody else answers it, or the data don't
                fit; it waits on.
        """
        run_id = str(self.entries[tool_call_id]["runId"])
        claimed = await self.agent.parked.claim(
            ResumeRequest(
                run_id=run_id,
                agent_id=self.agent.id,
                kind="data",
                data=args[_DATA],
                tool_call_id=tool_call_id,
                resource_id=self.messages.resource_id,
            ),
            self.tools,
        )
        host = self.agent.host
        heartbeat = host.runs.start(claimed.claim.keep_alive(), name=f"resume-claim:{run_id}")
        try:
            yield await self._begin(claimed, tool_call_id, args[_DATA])
            await self.agent.parked.end(claimed)
        except BaseException:
            await claimed.claim.release_anyway()
            raise
        finally:
            heartbeat.cancel()
        self._taken.add(tool_call_id)
        self._unmark(tool_call_id)

    async def _begin(self, claimed: ClaimedRun, tool_call_id: str, data: Any) -> TakenCall:
        parked = claimed.parked
        if parked.parked_ids() != [tool_call_id]:
            raise NotSuspendedError(
                f"Run {parked.run_id!r} waits for several answers; give them one by one.",
                run_id=parked.run_id,
                tool_call_id=tool_call_id,
            )
        outcome = parked.outcome_of(tool_call_id)
        assert outcome is not None
        if outcome.needs_approval:
            raise NotSuspendedError(
                "A model can't approve a call.", run_id=parked.run_id, tool_call_id=tool_call_id
            )
        started = {"decision": data, "startedAt": self.agent.host.clock.now_ms()}
        await claimed.claim.snapshots.record_receipt(
            parked.run_id, tool_call_id, started, claim_id=claimed.claim.claim_id
        )
        [args] = [c.get("args", {}) for c in parked.calls if c["toolCallId"] == tool_call_id]
        return TakenCall(outcome=outcome, args=args, data=data)

    def _unmark(self, tool_call_id: str) -> None:
        for message in self.messages.messages:
            marks = (message.content.get("metadata") or {}).get("suspendedTools")
            if isinstance(marks, dict) and tool_call_id in marks:
                del marks[tool_call_id]
                if not marks:
                    del message.metadata["suspendedTools"]
                message.saved = False


def _tool_of(entry: Mapping[str, Any]) -> str:
    return str(entry.get("parentToolName") or entry.get("toolName"))


def waiting_calls(
    agent: Agent, messages: MessageList, tools: Mapping[str, Tool]
) -> WaitingCalls | None:
    """Those of the thread, as its remembered messages tell; None if there are none."""
    entries: dict[str, Mapping[str, Any]] = {}
    for message in messages.messages:
        marks = (message.content.get("metadata") or {}).get("suspendedTools")
        for call_id, entry in marks.items() if isinstance(marks, Mapping) else ():
            if isinstance(entry, Mapping) and entry.get("runId"):
                entries[str(call_id)] = entry
    if not entries:
        return None
    return WaitingCalls(agent=agent, messages=messages, tools=tools, entries=entries)
