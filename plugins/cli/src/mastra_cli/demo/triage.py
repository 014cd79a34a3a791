"""The agent of the demo: reads the inbox, says what matters, proposes one action.

The action needs a person's approval. It only takes a note; the demo talks to nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from mastra_core import Agent, ToolContext
from mastra_core.agent.tools import FunctionTool
from mastra_core.contracts.model import Model
from mastra_core.contracts.storage import NotificationsStorage
from mastra_core.wire.notifications import PRIORITIES, NotificationRecord

__all__ = (
    "ACTIONS",
    "AGENT_ID",
    "INSTRUCTIONS",
    "OVERVIEW_TOOL",
    "PROPOSAL_TOOL",
    "REASONS",
    "RESOURCE_ID",
    "subjects_of",
    "triage_agent",
)

AGENT_ID: Final = "github-triage"
RESOURCE_ID: Final = "mastra-demo"
OVERVIEW_TOOL: Final = "inbox_overview"
PROPOSAL_TOOL: Final = "propose_action"

#: What the agent may propose.
ACTIONS: Final = ("run_again", "ask_the_author", "fix_the_dependency", "approve_the_workflow")

#: Why; a closed set, since a small model's own reasons wouldn't help anybody.
REASONS: Final = ("it blocks the release", "it is a security risk", "somebody waits for it")

INSTRUCTIONS: Final = (
    "You are the release engineer of a small team. Notifications about GitHub events come in. "
    f"First call {OVERVIEW_TOOL}. Then say in two or three short sentences what needs attention, "
    f"the most important first, and call {PROPOSAL_TOOL} once, for the most important thing. "
    "When the action was approved and done, close with one short sentence."
)


def triage_agent(model: Model, subjects: Sequence[str]) -> Agent:
    """
    The agent, the same in every process that has the same inbox.

    Args:
        model: Writes the words.
        subjects: What an action may be proposed for.
    """
    return Agent(
        id=AGENT_ID,
        name="GitHub triage",
        instructions=INSTRUCTIONS,
        model=model,
        tools=[_overview_tool(), _proposal_tool(subjects)],
    )


def subjects_of(records: Sequence[NotificationRecord]) -> list[str]:
    """What somebody could act on: the urgent and high ones, in a stable order."""
    serious = [record for record in records if record.priority in PRIORITIES[:2]]
    chosen = sorted(serious, key=lambda record: (PRIORITIES.index(record.priority), record.summary))
    return [record.summary for record in chosen]


def _overview_tool() -> FunctionTool:
    async def overview(_args: Any, context: ToolContext) -> dict[str, Any]:
        inbox: NotificationsStorage = context.mastra.storage.notifications
        records = await inbox.list_notifications(context.thread_id or "")
        return {
            "records": len(records),
            "events": sum(record.coalesced_count for record in records),
            "byPriority": dict(Counter(record.priority for record in records)),
            "byStatus": dict(Counter(record.status for record in records)),
        }

    return FunctionTool(
        id=OVERVIEW_TOOL,
        description="Count what is in the inbox, by priority and status.",
        input_schema={"type": "object", "properties": {}, "additionalProperties": False},
        execute=overview,
        idempotent=True,
    )


def _proposal_tool(subjects: Sequence[str]) -> FunctionTool:
    async def carry_out(args: Any, _context: ToolContext) -> dict[str, Any]:
        # The demo has no GitHub token and wants none: the note is what is done.
        return {"done": True, "action": args["action"], "subject": args["subject"]}

    subject: dict[str, Any] = {"type": "string"}
    if subjects:
        subject["enum"] = list(subjects)
    return FunctionTool(
        id=PROPOSAL_TOOL,
        description="Propose one action; a person approves it before it is done.",
        input_schema={
            "type": "object",
            "properties": {
                "subject": subject,
                "action": {"type": "string", "enum": list(ACTIONS)},
                "reason": {"type": "string", "enum": list(REASONS)},
            },
            "required": ["subject", "action", "reason"],
            "additionalProperties": False,
        },
        execute=carry_out,
        require_approval=True,
        idempotent=True,
    )
