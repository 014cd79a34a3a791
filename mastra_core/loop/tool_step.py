"""Execute the tool calls of one step (streaming.md 2.4, 2.5)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from mastra_core.base.jsonjs import sanitize_copy
from mastra_core.base.tasks import call_maybe_async, is_being_cancelled
from mastra_core.base.telemetry import Span
from mastra_core.contracts.background import BACKGROUND_MEMBER, TaskPlan, background_override
from mastra_core.contracts.tool import (
    DelegatedCall,
    RequireApproval,
    Tool,
    ToolContext,
    ToolObserver,
)
from mastra_core.errors import (
    FencedOutError,
    ForbiddenError,
    MastraError,
    ToolError,
    ToolFailedError,
    ToolInputError,
    ToolNotFoundError,
    TripwireError,
    reason_of,
    wire_from_error,
)
from mastra_core.loop.delegating import delegated_call, delegated_record
from mastra_core.loop.model_step import StepCall
from mastra_core.loop.setup import RunSetup
from mastra_core.loop.tool_body import invalid_input, run_body
from mastra_core.loop.tool_writer import RunToolWriter
from mastra_core.messages.from_output import ResponseWriter
from mastra_core.messages.task_results import apply_start, placeholder
from mastra_core.wire.chunks import Chunk, agent_chunk
from mastra_core.wire.tasks import BackgroundTask
from mastra_core.workflows.agent_snapshot import CallOutcome

__all__ = (
    "APPROVAL_SCHEMA_TEXT",
    "DEFAULT_DECLINE_REASON",
    "Answer",
    "ToolStep",
    "decline_reason",
    "result_chunk",
)

logger = logging.getLogger(__name__)

DEFAULT_DECLINE_REASON: Final = "Tool call was not approved by the user"
#: JSON text of what an approval is answered with; written exactly as peers write it.
APPROVAL_SCHEMA_TEXT: Final = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "approved": {
                "type": "boolean",
                "description": (
                    "Controls if the tool call is approved or not, should be true when "
                    "approved and false when declined"
                ),
            },
            "reason": {
                "description": (
                    "Optional explanation for the decision, surfaced to the model when the "
                    "tool call is declined"
                ),
                "type": "string",
            },
        },
        "required": ["approved"],
        "additionalProperties": False,
    },
    separators=(",", ":"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a parked call is resumed with."""

    data: Any
    #: The earlier payload of the parked call.
    outcome: CallOutcome
    #: The call waits for one of another run; its tool passes the answer on.
    is_for_delegate: bool = False


class ToolStep:
    """The tool calls of one step, run in order or side by side."""

    def __init__(
        self,
        setup: RunSetup,
        *,
        emit: Callable[[Chunk], Awaitable[Sequence[Chunk]]],
        writer: ResponseWriter,
        calls: Sequence[StepCall],
        abort: asyncio.Event,
        transcript: Callable[[], list[dict[str, Any]]],
        process_result: Callable[[StepCall, Any], Awaitable[None]] | None = None,
        save: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._setup = setup
        self._save = save
        #: Tasks of this step that are to be waited for, with the milliseconds.
        self.awaited: dict[str, int] = {}
        self._process_result = process_result
        self._emit = emit
        self._writer = writer
        self._abort = abort
        self._transcript = transcript
        self.calls = [call for call in calls if not call.provider_executed]
        self.outcomes: list[CallOutcome | None] = [None] * len(self.calls)
        #: A tool wants the run to end with this step.
        self.is_final = False
        #: Calls without an implementation here; they stay open.
        self.open_client_calls = 0
        self._announced: set[str] = set()

    # -- policy ---------------------------------------------------------------------------

    def concurrency(self) -> int:
        """1 when a tool can park the run, any or one that was called; else the limit."""
        if self._setup.require_tool_approval is not False:
            return 1
        called = {call.tool_name for call in self.calls}
        only_called = self._setup.tool_call_strategy == "called"
        for name, tool in self._setup.tools.items():
            if only_called and name not in called:
                continue
            if self._setup.offers(name) and (
                tool.require_approval is not False or tool.can_suspend
            ):
                return 1
        return max(1, self._setup.tool_call_concurrency)

    async def _needs_approval(self, tool: Tool, args: Any, context: ToolContext) -> bool:
        """A policy that raises counts as "approval required"."""
        own: RequireApproval = tool.require_approval
        policies = [own] if callable(own) else [self._setup.require_tool_approval, own]
        for policy in policies:
            if callable(policy):
                try:
                    verdict = bool(await call_maybe_async(policy, args, context))
                except Exception:
                    logger.exception("approval policy failed", extra={"tool": tool.id})
                    verdict = True
            else:
                verdict = bool(policy)
            if verdict:
                return True
        return False

    # -- running --------------------------------------------------------------------------

    async def run(self, answers: Mapping[str, Answer] | None = None) -> None:
        """
        Run every call that has no outcome yet, and those that ``answers`` resumes.

        Outcomes end up in ``outcomes``; result chunks are emitted in call order, each as
        soon as all earlier calls are settled (decisions.md 11).
        """
        answers = answers or {}
        todo = [
            index
            for index, call in enumerate(self.calls)
            if self.outcomes[index] is None or call.tool_call_id in answers
        ]
        limit = self.concurrency()
        if limit == 1:
            for index in todo:
                await self._run_one(index, answers)
                await self._announce()
                outcome = self.outcomes[index]
                if outcome is not None and outcome.is_parked:
                    break
        else:
            await self._run_together(todo, answers, limit)
        await self._announce(final=True)

    async def _run_together(
        self, todo: Sequence[int], answers: Mapping[str, Answer], limit: int
    ) -> None:
        slots = asyncio.Semaphore(limit)

        async def one(index: int) -> None:
            async with slots:
                await self._run_one(index, answers)
            await self._announce()

        if len(todo) == 1:
            await one(todo[0])
            return
        async with asyncio.TaskGroup() as group:
            for index in todo:
                call = self.calls[index]
                group.create_task(one(index), name=f"tool:{call.tool_name}:{call.tool_call_id}")

    async def _run_one(self, index: int, answers: Mapping[str, Answer]) -> None:
        call = self.calls[index]
        answer = answers.get(call.tool_call_id)
        started = self._setup.clock.now_ms()
        self.outcomes[index] = None
        is_decided = (
            answer is not None and answer.outcome.needs_approval and not answer.is_for_delegate
        )
        if answer is not None and is_decided and not _is_approved(answer):
            # Whoever says no needs no tool.
            self._decline(index, answer, started)
            return
        tool = self._setup.tools.get(call.tool_name)
        if tool is None or not self._setup.offers(call.tool_name):
            names = [name for name in self._setup.tools if self._setup.offers(name)]
            error = ToolNotFoundError(tool_name=call.tool_name, available=names)
            self._settle(index, started, {"error": wire_from_error(error)})
            return
        if tool.execute is None:
            self.open_client_calls += 1
            return
        suspended = self._setup.suspended
        if answer is None and suspended is not None:
            answered = suspended.answered_by(call.tool_name, call.args)
            if answered is not None:
                await self._run_taken(index, tool, answered, started)
                return
        if is_decided:
            self._writer.settle_call(
                call.tool_call_id, approval={"id": call.tool_call_id, "approved": True}
            )
        await self._run_body(index, tool, answer, started, is_approved=is_decided)

    async def _run_taken(self, index: int, tool: Tool, answered: str, started: int) -> None:
        """The model answers a call of an earlier run: carry that one out, with its arguments."""
        call, suspended = self.calls[index], self._setup.suspended
        assert suspended is not None
        try:
            async with suspended.take(answered, call.args) as taken:
                self.calls[index] = replace(call, args=taken.args)
                is_delegated = delegated_call(taken.outcome.suspend_payload or {}) is not None
                answer = Answer(
                    data=taken.data,
                    outcome=taken.outcome,
                    is_for_delegate=is_delegated and getattr(tool, "delegates", False),
                )
                await self._run_body(index, tool, answer, started)
        except (ForbiddenError, TripwireError, FencedOutError):
            raise
        except MastraError as exc:
            self.calls[index] = call
            self._settle(index, started, {"error": wire_from_error(exc)})

    def _decline(self, index: int, answer: Answer, started: int) -> None:
        """A call was not approved: the model is told why."""
        approval = {
            "id": self.calls[index].tool_call_id,
            "approved": False,
            "reason": decline_reason(answer.data if isinstance(answer.data, Mapping) else {}),
        }
        self._settle(index, started, {"approval": approval})

    async def _run_body(
        self,
        index: int,
        tool: Tool,
        answer: Answer | None,
        started: int,
        *,
        is_approved: bool = False,
    ) -> None:
        call, setup = self.calls[index], self._setup
        facts = {
            "toolId": tool.id,
            "toolCallId": call.tool_call_id,
            "runId": setup.run_id,
            "agentId": setup.agent_id,
        }
        with setup.tracer.span(f"tool: '{call.tool_name}'", facts, kind="tool_call") as span:
            await self._call_tool(index, tool, answer, started, span, is_approved=is_approved)
            outcome = self.outcomes[index]
            if span.is_recording and outcome is not None:
                _note_outcome(span, call, outcome)

    async def _call_tool(
        self,
        index: int,
        tool: Tool,
        answer: Answer | None,
        started: int,
        span: Span,
        *,
        is_approved: bool,
    ) -> None:
        call = self.calls[index]
        parked: list[dict[str, Any]] = []
        tool_writer = RunToolWriter(
            self._emit,
            self._writer,
            run_id=self._setup.run_id,
            tool_call_id=call.tool_call_id,
            tool_name=call.tool_name,
        )
        context = self._context(call, tool, tool_writer, parked, answer, is_approved=is_approved)
        context.observe = ToolObserver(tracer=self._setup.tracer, current_span=span)
        try:
            own_args, override = _without_override(call.args, tool)
            # A copy: what a tool does to its arguments must not change what is stored.
            args = tool.parse_input(sanitize_copy(own_args))
            if (check_context := getattr(tool, "check_context", None)) is not None:
                check_context(self._setup.request_context)
        except ToolInputError as exc:
            self._settle(index, started, {"result": invalid_input(exc)})
            return
        except Exception as exc:  # noqa: BLE001 - a schema of the tool failed, not its arguments
            span.record_error(exc)
            self._settle(index, started, {"error": wire_from_error(_tool_failure(exc, call))})
            return
        if answer is None and await self._needs_approval(tool, args, context):
            approval = {**_named(call), "args": call.args}
            self._park(index, started, {"requireToolApproval": approval})
            return
        # A receipt that can't be written stops the run: the tool must not run untraced.
        await self._receipt(call, answer, {"startedAt": started})
        assert tool.execute is not None
        plan = None
        if self._setup.background is not None and (answer is None or is_approved):
            plan = self._setup.background.plan(call.tool_name, override)
        if plan is not None:
            handed_over = await self._hand_over(call, plan, own_args, args, context)
            if handed_over is not None:
                tool_writer.close()
                await self._receipt(call, answer, handed_over)
                self._settle(index, started, handed_over)
                return
        try:
            value = await run_body(
                tool, call, args, context, self._setup.tool_hooks, has_parked=parked.__len__
            )
            # What can't be stored is a fault of the tool, not the end of the turn; and what
            # the tool does to its answer later changes nothing any more.
            output: dict[str, Any] = {"result": sanitize_copy(value)}
            if not parked:
                output = await self._processed(call, output)
                output |= await _shown_to_model(tool, output["result"])
        except ToolInputError as exc:
            output = {"result": invalid_input(exc)}
        except (ForbiddenError, TripwireError):
            raise
        except asyncio.CancelledError as exc:
            # Something that the tool waited for was cancelled; the run itself was not.
            if is_being_cancelled():
                raise
            span.record_error(exc)
            output = {"error": wire_from_error(_tool_failure(exc, call))}
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as exc:  # noqa: BLE001 - the door of the tool: the model is told
            span.record_error(exc)
            output = {"error": wire_from_error(_tool_failure(exc, call))}
        finally:
            tool_writer.close()
        if self._abort.is_set():
            # It took no notice; the run is over, and its call stays open (streaming.md 2.4).
            return
        if parked and "error" not in output:
            self._park(index, started, parked[0])
            return
        await self._receipt(call, answer, output)
        if is_approved and "result" in output:
            output["approval"] = {"id": call.tool_call_id, "approved": True}
        self._settle(index, started, output)

    async def _hand_over(
        self, call: StepCall, plan: TaskPlan, own_args: Any, args: Any, context: ToolContext
    ) -> dict[str, Any] | None:
        """What stands in for the result of a call that became a task; None: run it inline."""
        background = self._setup.background
        assert background is not None
        output: dict[str, Any] = {}

        async def created(task: BackgroundTask) -> None:
            mark = {"mastra": {"backgroundTask": {"taskId": task.id, "status": "running"}}}
            output["result"] = placeholder(task.id, call.tool_name)
            output["providerMetadata"] = mark
            self._writer.settle_call(
                call.tool_call_id, part_metadata=mark, state="result", result=output["result"]
            )
            started = {"taskId": task.id, **_named(call)}
            await self._emit(agent_chunk("background-task-started", self._setup.run_id, started))

        try:
            if self._save is not None:
                # Whoever ends the task, wherever, finds the call in its message.
                await self._save()
            task = await background.hand_over(
                plan, args=own_args, parsed=args, context=context, on_created=created
            )
        except TripwireError:
            raise
        except MastraError as exc:
            return {"error": wire_from_error(exc)}
        if task is None:
            return None
        holder = self._writer.message_of(call.tool_call_id)
        if holder is not None and task.started_at is not None:
            apply_start(holder.content, task)
        limit_ms = background.awaited_limit_ms(plan) if plan.disposition == "awaited" else None
        if limit_ms is not None:
            self.awaited[task.id] = limit_ms
        return output

    async def _processed(self, call: StepCall, output: dict[str, Any]) -> dict[str, Any]:
        """
        The result, or what the tool-result hooks have put into the list in its place.

        Raises:
            TripwireError: One stopped the run; the raw result is nowhere.
            ProcessorError: One failed; the model is told so instead.
        """
        processors = self._setup.processors
        if (
            self._process_result is None
            or processors is None
            or not processors.has("process_tool_result")
        ):
            return output
        await self._process_result(call, output["result"])
        invocation = self._writer.invocation(call.tool_call_id)
        if invocation is not None and invocation.get("state") == "result":
            return {"result": sanitize_copy(invocation.get("result"))}
        return output

    def _context(
        self,
        call: StepCall,
        tool: Tool,
        tool_writer: RunToolWriter,
        parked: list[dict[str, Any]],
        answer: Answer | None,
        *,
        is_approved: bool,
    ) -> ToolContext:
        async def suspend(
            payload: Any = None,
            *,
            resume_label: str | None = None,
            delegated: DelegatedCall | None = None,
        ) -> None:
            own = sanitize_copy(payload)
            if (check := getattr(tool, "check_suspend", None)) is not None and delegated is None:
                check(own)
            record: dict[str, Any] = {"toolCallSuspended": own, **_named(call)}
            if resume_label is not None:
                record["resumeLabel"] = resume_label
            if delegated is not None:
                record = delegated_record(record, call.tool_call_id, delegated)
            parked.append(record)

        setup = self._setup
        data = answer.data if answer is not None else None
        if answer is not None and answer.is_for_delegate:
            pass  # The schema of the other run's tool decides about it.
        elif is_approved and isinstance(data, Mapping):
            # The tool sees resume data only if it holds more than the decision.
            data = dict(data) if set(data) - {"approved"} else None
        elif answer is not None:
            # An approval given to a suspended call need not fit; the tool gets it as it is.
            with suppress(ToolInputError):
                data = tool.parse_resume(data)
        earlier = answer.outcome.suspend_payload if answer is not None else None
        return ToolContext(
            agent_id=setup.agent_id,
            run_id=setup.run_id,
            tool_call_id=call.tool_call_id,
            tool_name=call.tool_name,
            writer=tool_writer,
            suspend=suspend,
            thread_id=self._writer.thread_id,
            resource_id=self._writer.resource_id,
            resume_data=data,
            is_resumed=answer is not None and not is_approved,
            suspend_payload=(earlier or {}).get("toolCallSuspended"),
            delegated=delegated_call(earlier or {}),
            rerun_unknown=setup.rerun_unknown,
            idempotency_key=f"{setup.run_id}:{call.tool_call_id}",
            request_context=setup.request_context,
            load_messages=self._transcript,
            abort=self._abort,
            mastra=setup.mastra,
            delegation=setup.delegation,
            require_tool_approval=setup.require_tool_approval,
            end_run=self._end_run,
            actor=setup.actor,
            flush_messages=self._save,
        )

    def _end_run(self) -> None:
        self.is_final = True

    async def _receipt(
        self, call: StepCall, answer: Answer | None, facts: Mapping[str, Any]
    ) -> None:
        """
        Leave a trace of a resumed call, so that a crash can't run it twice unseen.

        Raises:
            FencedOutError: Another process answers the run now; the tool must not run.
        """
        setup = self._setup
        if setup.snapshots is None or setup.claim is None:
            return
        if answer is None:
            await setup.claim.assert_held()
            return
        receipt: dict[str, Any] = {"decision": answer.data, **facts}
        if "startedAt" not in facts:
            receipt["finishedAt"] = setup.clock.now_ms()
        await setup.snapshots.record_receipt(
            setup.run_id, call.tool_call_id, receipt, claim_id=setup.claim.claim_id
        )

    # -- outcomes -------------------------------------------------------------------------

    def _park(self, index: int, started: int, payload: dict[str, Any]) -> None:
        self.outcomes[index] = CallOutcome(
            status="suspended",
            started_at=started,
            settled_at=self._setup.clock.now_ms(),
            suspend_payload=payload,
        )

    def _settle(self, index: int, started: int, output: dict[str, Any]) -> None:
        self.outcomes[index] = CallOutcome(
            status="success",
            started_at=started,
            settled_at=self._setup.clock.now_ms(),
            output=output,
        )

    def mark_announced(self, tool_call_ids: Sequence[str]) -> None:
        """These results were streamed by an earlier segment of the run."""
        self._announced.update(tool_call_ids)

    async def _announce(self, *, final: bool = False) -> None:
        """Emit results in call order as far as they are there."""
        for index, call in enumerate(self.calls):
            outcome = self.outcomes[index]
            if outcome is None or outcome.is_parked:
                if not final:
                    return
                continue
            if call.tool_call_id in self._announced:
                continue
            self._announced.add(call.tool_call_id)
            await self._emit(result_chunk(self._setup.run_id, call, outcome))

    def apply_results(self) -> None:
        """Write the outcomes of ended calls into the message that holds them."""
        for call, outcome in self.settled():
            self._writer.settle_call(
                call.tool_call_id,
                part_metadata=outcome.output.get("providerMetadata"),
                **_invocation_members(outcome),
            )

    def settled(self) -> list[tuple[StepCall, CallOutcome]]:
        """The calls that have ended here; those that became tasks have not."""
        return [
            (call, outcome)
            for call, outcome in zip(self.calls, self.outcomes, strict=True)
            if outcome is not None and not outcome.is_parked and not _is_handed_over(outcome)
        ]

    def name_of(self, tool_call_id: str) -> str:
        """The tool of a call; empty if it is none of this step."""
        found = [c.tool_name for c in self.calls if c.tool_call_id == tool_call_id]
        return found[-1] if found else ""

    @property
    def parked(self) -> list[tuple[StepCall, CallOutcome]]:
        """The calls that wait for an answer, in order."""
        return [
            (call, outcome)
            for call, outcome in zip(self.calls, self.outcomes, strict=True)
            if outcome is not None and outcome.is_parked
        ]


def _note_outcome(span: Span, call: StepCall, outcome: CallOutcome) -> None:
    """What became of a call, for whoever looks at the trace."""
    span.set_attribute("input", call.args)
    if outcome.is_parked:
        span.set_attribute("suspended", True)
        span.set_attribute("needsApproval", outcome.needs_approval)
        return
    span.set_attribute("success", "error" not in outcome.output)
    if "result" in outcome.output:
        span.set_attribute("output", outcome.output["result"])


def _is_handed_over(outcome: CallOutcome) -> bool:
    """Its message was written when it became a task; it may hold the real result by now."""
    mastra = (outcome.output.get("providerMetadata") or {}).get("mastra") or {}
    return "backgroundTask" in mastra


def _without_override(args: Any, tool: Tool) -> tuple[Any, Mapping[str, Any] | None]:
    """The arguments for the body, and what the model said about running it (decisions.md 37)."""
    own_args, override = background_override(args)
    if override is not None and BACKGROUND_MEMBER in _properties(tool):
        # An argument of the tool's own.
        return args, None
    return own_args, override


def _properties(tool: Tool) -> Mapping[str, Any]:
    return tool.input_json_schema().get("properties") or {}


async def _shown_to_model(tool: Tool, result: Any) -> dict[str, Any]:
    """What the model reads in place of the result, if the tool says so (streaming.md 6.1)."""
    convert = getattr(tool, "to_model_output", None)
    if convert is None:
        return {}
    try:
        shown = sanitize_copy(await call_maybe_async(convert, result))
    except Exception:
        # The call has been made; its result is what there is.
        logger.exception("to_model_output failed", extra={"tool": tool.id})
        return {}
    return {"providerMetadata": {"mastra": {"modelOutput": shown}}}


def _is_approved(answer: Answer) -> bool:
    return isinstance(answer.data, Mapping) and answer.data.get("approved") is True


def _named(call: StepCall) -> dict[str, Any]:
    return {"toolCallId": call.tool_call_id, "toolName": call.tool_name}


def decline_reason(decision: Mapping[str, Any]) -> str:
    """The caller's non-blank reason, that of ``declineContext``, or the fixed default."""
    context = decision.get("declineContext")
    candidates = (
        decision.get("reason"),
        context.get("reason") if isinstance(context, Mapping) else None,
    )
    for reason in candidates:
        if isinstance(reason, str) and reason.strip():
            return reason
    return DEFAULT_DECLINE_REASON


def _tool_failure(error: BaseException, call: StepCall) -> MastraError:
    if isinstance(error, ToolError):
        return error
    failure = ToolFailedError(tool_name=call.tool_name, reason=reason_of(error))
    failure.__cause__ = error
    return failure


def _invocation_members(outcome: CallOutcome) -> dict[str, Any]:
    output = outcome.output
    if "error" in output:
        error = output["error"]
        text = error.get("message") if isinstance(error, Mapping) else str(error)
        return {"state": "output-error", "errorText": text}
    approval = output.get("approval")
    if isinstance(approval, Mapping) and approval.get("approved") is False:
        return {"state": "output-denied", "approval": dict(approval)}
    members: dict[str, Any] = {"state": "result", "result": output.get("result")}
    if isinstance(approval, Mapping):
        members["approval"] = dict(approval)
    return members


def result_chunk(run_id: str, call: StepCall, outcome: CallOutcome) -> Chunk:
    """``tool-result``, ``tool-error`` or ``tool-output-denied`` of an ended call."""
    payload: dict[str, Any] = {"args": call.args, **_named(call)}
    if call.provider_metadata is not None:
        payload["providerMetadata"] = dict(call.provider_metadata)
    output = outcome.output
    if "providerMetadata" in output:
        payload["providerMetadata"] = {
            **payload.get("providerMetadata", {}),
            **output["providerMetadata"],
        }
    approval = output.get("approval")
    if "error" in output:
        kind = "tool-error"
        payload["error"] = output["error"]
    elif isinstance(approval, Mapping) and approval.get("approved") is False:
        kind = "tool-output-denied"
        payload["approval"] = dict(approval)
    else:
        kind = "tool-result"
        payload["result"] = output.get("result")
    return {"type": kind, "runId": run_id, "from": "AGENT", "payload": payload}
