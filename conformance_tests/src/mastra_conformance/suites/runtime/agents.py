"""Agents that the runtime suites put to work, and what they did."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mastra_core import Agent, FunctionTool, Mastra, MemoryOptions
from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.contracts.storage import Storage
from mastra_core.contracts.tool import ToolContext
from mastra_core.testing.scripted_model import Gates, Script, ScriptedModel, text, tool_call

__all__ = (
    "RESOURCE",
    "THREAD",
    "Workshop",
    "application",
    "chunk_types",
    "deploy_calls",
    "workshop",
)

THREAD = "thread_1"
RESOURCE = "user_1"

_ENV = {
    "type": "object",
    "properties": {"env": {"type": "string"}},
    "required": ["env"],
    "additionalProperties": False,
}


@dataclass(slots=True)
class Workshop:
    """One agent with tools that park its runs, and a list of what its tools did."""

    agent: Agent
    model: ScriptedModel
    gates: Gates
    #: ``(tool, arguments, resume data)`` per execution.
    executed: list[tuple[str, Any, Any]] = field(default_factory=list)
    #: The request context of each execution of ``deploy``.
    contexts: list[dict[str, Any]] = field(default_factory=list)

    def prompts(self) -> list[list[dict[str, Any]]]:
        """What the model was shown, call by call."""
        return [[dict(turn) for turn in request.prompt] for request in self.model.requests]


def deploy_calls(*environments: str) -> list[dict[str, Any]]:
    """Script parts: one call of ``deploy`` per environment."""
    return [
        tool_call("deploy", {"env": env}, id=f"call_{number}")
        for number, env in enumerate(environments, 1)
    ]


def workshop(
    calls: Sequence[Script] = (),
    *,
    agent_id: str = "helper",
    memory: bool | MemoryOptions = True,
    idempotent: bool = False,
    gate: str | None = None,
    counts: str = "integer",
) -> Workshop:
    """
    An agent with the tools ``deploy`` (needs approval), ``ask`` (suspends with a question,
    resumed with an answer), ``count`` (suspends, resumed with a number), ``park``
    (suspends without declaring it) and ``echo``.

    Args:
        calls: The model's script; by default one ``deploy`` and a closing text.
        agent_id: Its id.
        memory: Whether it remembers threads.
        idempotent: Whether ``deploy`` may be repeated.
        gate: A gate at which ``deploy`` waits before it returns.
        counts: The JSON type that ``count`` is resumed with.
    """
    gates = Gates()
    model = ScriptedModel(calls or [deploy_calls("prod"), [text("done")]], gates=gates)
    made = Workshop(agent=None, model=model, gates=gates)  # type: ignore[arg-type] # set below

    async def deploy(args: Any, context: ToolContext) -> Any:
        made.executed.append(("deploy", args, context.resume_data))
        made.contexts.append(dict(context.request_context))
        if gate is not None:
            await gates.wait(gate)
        return {"deployed": args["env"]}

    async def ask(args: Any, context: ToolContext) -> Any:
        made.executed.append(("ask", args, context.resume_data))
        if not context.is_resumed:
            await context.suspend({"question": args["q"]})
            return None
        return {"answered": context.resume_data["answer"]}

    async def count(args: Any, context: ToolContext) -> Any:
        made.executed.append(("count", args, context.resume_data))
        if not context.is_resumed:
            await context.suspend({"how": "many"})
            return None
        return {"counted": context.resume_data}

    async def park(args: Any, context: ToolContext) -> Any:
        made.executed.append(("park", args, context.resume_data))
        if not context.is_resumed:
            await context.suspend({"name": args["name"]})
            return None
        return {"parked": args["name"], "got": context.resume_data}

    async def echo(args: Any, context: ToolContext) -> Any:
        made.executed.append(("echo", args, None))
        return {"echoed": args["text"]}

    answer = {
        "type": "object",
        "properties": {"answer": {"type": "string"}},
        "required": ["answer"],
    }
    made.agent = Agent(
        id=agent_id,
        instructions="Help.",
        model=model,
        memory=memory,
        tools=[
            FunctionTool(
                id="deploy",
                input_schema=_ENV,
                execute=deploy,
                require_approval=True,
                idempotent=idempotent,
            ),
            FunctionTool(
                id="ask",
                input_schema={"type": "object"},
                execute=ask,
                resume_schema=answer,
            ),
            FunctionTool(
                id="count",
                input_schema={"type": "object"},
                execute=count,
                resume_schema={"type": counts},
            ),
            FunctionTool(id="park", input_schema={"type": "object"}, execute=park),
            FunctionTool(id="echo", input_schema={"type": "object"}, execute=echo),
        ],
    )
    return made


@asynccontextmanager
async def application(
    store: Storage, *workshops: Workshop, clock: Clock, ids: Ids
) -> AsyncIterator[Mastra]:
    """An application around these agents; a second one on the same store is a restart."""
    async with Mastra(
        storage=store,
        pubsub="memory:",
        lease="memory:",
        agents=[one.agent for one in workshops],
        notifications={"enabled": False},
        clock=clock,
        ids=ids,
    ) as opened:
        yield opened


async def chunk_types(stream: AsyncIterator[dict[str, Any]]) -> list[str]:
    """The types of all chunks."""
    return [chunk["type"] async for chunk in stream]
