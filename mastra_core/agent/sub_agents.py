"""Agents that another agent can call: each is a tool ``agent-<name>`` (streaming.md 6.4).

The sub-agent runs on its own, in a thread of its own beside the supervisor's, and its chunks
arrive in the supervisor's stream. If it waits for a person, the supervisor's run waits, and
whoever answers that answers it (snapshots.md 8.3).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from mastra_core.agent.options import RESERVED
from mastra_core.agent.tools import FunctionTool
from mastra_core.base.tasks import call_maybe_async
from mastra_core.contracts.delegation import (
    Delegation,
    DelegationChange,
    DelegationEnd,
    DelegationStart,
)
from mastra_core.contracts.tool import DelegatedCall, ToolContext
from mastra_core.errors import (
    ConfigError,
    MastraError,
    RunNotFoundError,
    ToolError,
    shown,
)
from mastra_core.streaming.output import ModelOutput
from mastra_core.wire.chunks import Chunk

if TYPE_CHECKING:
    from mastra_core.agent.agent import Agent

__all__ = ("SubAgentTool", "sub_agent_tools")

logger = logging.getLogger(__name__)

_PREFIX: Final = "agent-"
#: Answers to a call that is not lost, but not ours to give now: it goes on waiting.
_STILL_WAITS: Final = frozenset({"AGENT_RESUME_STATE_UNKNOWN", "AGENT_RESUME_ALREADY_CLAIMED"})


class _Task(BaseModel):
    """What a supervisor's model says to a sub-agent."""

    model_config = ConfigDict(extra="ignore")

    prompt: str = Field(description="What the agent is to do, with all that it needs to know.")
    instructions: str | None = Field(
        default=None, description="Further instructions for this task alone."
    )
    max_steps: int | None = Field(
        default=None, ge=1, alias="maxSteps", description="How many steps it may take at most."
    )


def sub_agent_tools(agents: Sequence[Agent] | Mapping[str, Agent]) -> dict[str, SubAgentTool]:
    """
    The tools by which a supervisor's model calls its sub-agents.

    Raises:
        ConfigError: One is no agent, or two have one name.
    """
    if not isinstance(agents, Sequence | Mapping) or isinstance(agents, str):
        raise ConfigError(f"Sub-agents are a list or a mapping of agents, not {shown(agents)}.")
    given = (
        list(agents.items())
        if isinstance(agents, Mapping)
        else [(getattr(agent, "id", None), agent) for agent in agents]
    )
    named: dict[str, SubAgentTool] = {}
    for name, agent in given:
        if not isinstance(name, str) or not callable(getattr(agent, "resume_stream", None)):
            raise ConfigError(f"{shown(agent)} is no agent.")
        if _PREFIX + name in named:
            raise ConfigError(f"Two sub-agents are called {name!r}.")
        named[_PREFIX + name] = SubAgentTool(name, agent)
    return named


class SubAgentTool(FunctionTool):
    """A tool whose calls are runs of another agent."""

    #: Answers to its parked calls are for the run that it started.
    delegates: Final = True

    def __init__(self, name: str, agent: Agent) -> None:
        super().__init__(
            id=_PREFIX + name,
            description=agent.description or f"Agent: {name}",
            input_schema=_Task,
            execute=self._run,
            # What was done is in the receipts of the sub-agent's run.
            idempotent=True,
            to_model_output=_shown,
        )
        self.name = name
        self.agent = agent

    async def _run(self, task: _Task, context: ToolContext) -> Any:
        hooks = context.delegation or Delegation()
        try:
            if context.delegated is not None:
                output = await self._answer(context.delegated, context)
                if output is None:
                    return await self._remembered(context.delegated)
            else:
                start = self._start_of(task, context)
                change = await _change(hooks, start)
                if not change.proceed:
                    return {"text": change.reason or "The delegation was refused."}
                output = await self._ask(task, change, hooks, start, context)
            await _pipe(output, context)
        except Exception as exc:
            await self._ended(hooks, task, context, error=exc)
            raise
        if isinstance(output, _Waiting) or output.status == "suspended":
            await _wait(output, context)
            return None
        try:
            result = self._result(output)
        except MastraError as exc:
            await self._ended(hooks, task, context, error=exc)
            raise
        feedback = await self._ended(hooks, task, context, result=result)
        return {**result, "feedback": feedback} if feedback else result

    # -- its run --------------------------------------------------------------------------

    def _start_of(self, task: _Task, context: ToolContext) -> DelegationStart:
        return DelegationStart(
            agent_name=self.name,
            agent_id=self.agent.id,
            supervisor_id=context.agent_id,
            prompt=task.prompt,
            run_id=context.run_id,
            tool_call_id=context.tool_call_id,
            messages=context.messages,
        )

    async def _ask(
        self,
        task: _Task,
        change: DelegationChange,
        hooks: Delegation,
        start: DelegationStart,
        context: ToolContext,
    ) -> ModelOutput:
        seen = start.messages
        if hooks.message_filter is not None:
            seen = await call_maybe_async(hooks.message_filter, start)
        options: dict[str, Any] = {
            **_shared_options(context),
            "context": [message for message in seen if message.get("role") != "system"] or None,
            "max_steps": change.max_steps or task.max_steps,
            "system": change.instructions or task.instructions,
        }
        if context.thread_id is not None and self.agent.memory is not None:
            own = self.agent.host.ids.new("thread")
            options["thread_id"] = f"{context.thread_id}-{own}"
            options["resource_id"] = f"{context.resource_id or context.agent_id}-{self.name}"
        part = {"type": "text", "text": change.prompt or task.prompt}
        # In stored form, as peers store it.
        said = {"role": "user", "content": {"format": 2, "parts": [part]}}
        return await self.agent.stream([said], **options)

    async def _answer(
        self, inner: DelegatedCall, context: ToolContext
    ) -> ModelOutput | _Waiting | None:
        """Its run, going on; None if it is over already."""
        try:
            return await self.agent.resume_stream(
                context.resume_data,
                run_id=inner.run_id,
                tool_call_id=inner.tool_call_id,
                allow_kind_mismatch=True,
                rerun_unknown=context.rerun_unknown,
                **_shared_options(context),
            )
        except RunNotFoundError:
            return None
        except MastraError as exc:
            if exc.id not in _STILL_WAITS:
                raise
            logger.warning("the sub-agent's call waits on", extra={"run_id": inner.run_id})
            return _Waiting(inner)

    async def _remembered(self, inner: DelegatedCall) -> dict[str, Any]:
        """
        What a run has said that ended without us: we died, or somebody answered it directly.

        Raises:
            ToolError: It left no answer.
        """
        memory = self.agent.memory
        if memory is not None and inner.thread_id is not None:
            page = await memory.store.list_messages(inner.thread_id, per_page=False)
            last = page.messages[-1] if page.messages else None
            text = last.content.get("content") if last is not None else None
            if last is not None and last.role == "assistant" and text:
                return {
                    "text": text,
                    "subAgentThreadId": inner.thread_id,
                    "subAgentResourceId": last.resource_id,
                    "subAgentToolResults": [
                        {
                            name: part["toolInvocation"][name]
                            for name in ("toolName", "toolCallId", "result", "args")
                        }
                        for message in page.messages
                        for part in message.content.get("parts", ())
                        if (part.get("toolInvocation") or {}).get("state") == "result"
                    ],
                }
        raise ToolError(f"The run of agent {self.name!r} is over, and left no answer.")

    def _result(self, output: ModelOutput) -> dict[str, Any]:
        """
        What the supervisor's model gets.

        Raises:
            MastraError: The run failed, was aborted, or a processor stopped it.
        """
        record = output.record
        if output.failure is not None:
            raise ToolError(f"Agent {self.name!r} failed: {output.failure}") from output.failure
        if output.status != "success":
            reason = (record.tripwire or {}).get("reason") or "its run was aborted"
            raise ToolError(f"Agent {self.name!r} was stopped: {reason}")
        result: dict[str, Any] = {"text": record.text(is_suspended=False)}
        if output.message_list.thread_id is not None:
            result["subAgentThreadId"] = output.message_list.thread_id
            result["subAgentResourceId"] = output.message_list.resource_id
        members = ("toolName", "toolCallId", "result", "args")
        result["subAgentToolResults"] = [
            {name: chunk["payload"][name] for name in members if name in chunk["payload"]}
            for chunk in record.tool_results
        ]
        return result

    async def _ended(
        self,
        hooks: Delegation,
        task: _Task,
        context: ToolContext,
        *,
        result: dict[str, Any] | None = None,
        error: BaseException | None = None,
    ) -> str | None:
        """Tell the hook how it ended; what it has to add."""
        if hooks.on_complete is None:
            return None
        end = DelegationEnd(
            agent_name=self.name,
            agent_id=self.agent.id,
            supervisor_id=context.agent_id,
            prompt=task.prompt,
            run_id=context.run_id,
            tool_call_id=context.tool_call_id,
            result=result,
            error=error,
        )
        try:
            feedback = await call_maybe_async(hooks.on_complete, end)
        except Exception:
            logger.exception("delegation hook failed", extra={"agent": self.agent.id})
            return None
        if end.has_bailed:
            context.end_run()
        return feedback if isinstance(feedback, str) and feedback else None


def _shown(result: Any) -> Any:
    """The model reads the answer, not where it is stored."""
    if not isinstance(result, Mapping):
        return {"type": "json", "value": result}
    texts = [result.get("text"), result.get("feedback")]
    return {"type": "text", "value": "\n\n".join(str(text) for text in texts if text)}


def _shared_options(context: ToolContext) -> dict[str, Any]:
    """What a sub-agent's run has of the run that started it; its thread is its own."""
    own = {k: v for k, v in context.request_context.items() if k not in RESERVED}
    return {
        "request_context": own,
        "abort_signal": context.abort,
        "actor": context.actor,
        "require_tool_approval": context.require_tool_approval,
    }


async def _change(hooks: Delegation, start: DelegationStart) -> DelegationChange:
    if hooks.on_start is None:
        return DelegationChange()
    change = await call_maybe_async(hooks.on_start, start)
    if change is not None and not isinstance(change, DelegationChange):
        raise ToolError(f"on_start returns a DelegationChange or None, not {shown(change)}.")
    return change or DelegationChange()


# -- its chunks ---------------------------------------------------------------------------------


async def _pipe(output: ModelOutput | _Waiting, context: ToolContext) -> None:
    """Let the supervisor's readers see what the sub-agent does, as it does it."""
    if isinstance(output, _Waiting):
        return
    try:
        async for chunk in output.full_stream:
            if str(chunk["type"]).startswith("data-"):
                await context.writer.custom(chunk)
            else:
                await context.writer.write(_without_transcript(chunk))
    except (asyncio.CancelledError, Exception):
        output.abort()
        raise


def _without_transcript(chunk: Chunk) -> Chunk:
    """Its thread holds its messages; the supervisor's stream doesn't repeat them."""
    payload = chunk.get("payload")
    if chunk["type"] not in ("step-start", "step-finish", "finish") or not isinstance(
        payload, Mapping
    ):
        return chunk
    hidden = ("messages", "response", "request", "inputMessages")
    return {**chunk, "payload": {k: v for k, v in payload.items() if k not in hidden}}


# -- waiting ------------------------------------------------------------------------------------


class _Waiting:
    """A run that was not answered: it waits for what it waited for."""

    def __init__(self, inner: DelegatedCall) -> None:
        self.inner = inner


async def _wait(output: ModelOutput | _Waiting, context: ToolContext) -> None:
    """Park the supervisor's call in the place of the one that the sub-agent waits for."""
    if isinstance(output, _Waiting):
        await context.suspend(context.suspend_payload, delegated=output.inner)
        return
    asked: Mapping[str, Any] = output.record.suspend_payload or {}
    await context.suspend(
        asked.get("suspendPayload"),
        delegated=DelegatedCall(
            run_id=output.run_id,
            tool_call_id=asked.get("toolCallId"),
            tool_name=str(asked.get("toolName") or ""),
            args=asked.get("args"),
            needs_approval="suspendPayload" not in asked,
            resume_schema=str(asked.get("resumeSchema") or "{}"),
            thread_id=output.message_list.thread_id,
        ),
    )
