"""The run loop: step after step until nothing is left to do (streaming.md 2).

One :class:`AgentLoop` is one segment of a run: from its start, or from a resume, to its end
or its next suspension. It never raises; how it ended is in its output.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mastra_core.base.jsonjs import encode, sanitize_copy
from mastra_core.base.tasks import call_maybe_async, shielded
from mastra_core.contracts.model import Model, ModelPart, ModelRequest
from mastra_core.errors import (
    MastraError,
    ModelError,
    RunTimeoutError,
    StorageError,
    TripwireError,
    WireEncodeError,
)
from mastra_core.loop.continue_rule import (
    DEFAULT_MAX_STEPS,
    may_run_tools,
    wants_another_step,
)
from mastra_core.loop.interrupt import Interrupt, RunInterrupted
from mastra_core.loop.model_step import Chunk, ModelStep, StepCall, StepResult, error_on_wire
from mastra_core.loop.setup import RunSetup
from mastra_core.loop.tool_schema import offered_tools
from mastra_core.loop.tool_step import APPROVAL_SCHEMA_TEXT, Answer, ToolStep
from mastra_core.messages.from_output import ResponseWriter
from mastra_core.messages.message_list import ListedMessage
from mastra_core.messages.signals import create_signal, echo_chunk
from mastra_core.messages.to_prompt import prompt_from_messages
from mastra_core.processors.arguments import StepPatch
from mastra_core.streaming.output import ModelOutput, RunStatus
from mastra_core.streaming.settle import add_usage
from mastra_core.wire.signals import Signal
from mastra_core.workflows.agent_snapshot import CallOutcome, ParkedRun

__all__ = ("AgentLoop", "ResumePoint")

logger = logging.getLogger(__name__)

#: Chunks after which the loop lets other tasks run, if the model never waits.
_BREATH = 64
#: Seconds that saving may take after the run was cancelled.
_LAST_SAVE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePoint:
    """Where a parked run goes on, and with which answers."""

    parked: ParkedRun
    #: Answer per tool call id.
    answers: Mapping[str, Any]


class AgentLoop:
    """One segment of a run."""

    def __init__(
        self,
        setup: RunSetup,
        output: ModelOutput,
        interrupt: Interrupt,
        *,
        resume: ResumePoint | None = None,
    ) -> None:
        self._setup = setup
        self._output = output
        self._interrupt = interrupt
        self._resume = resume
        self._messages = output.message_list
        self._iteration = resume.parked.iteration if resume else 0
        self._processors = setup.processors
        self._last_finish: dict[str, Any] = {}
        self._is_parked = False
        #: When the run began; None for a resumed one.
        self._started_at: datetime | None = None
        model = setup.models[0]
        self._writer = ResponseWriter(
            self._messages,
            clock=setup.clock,
            provider=model.provider,
            model_id=model.model_id,
        )
        self._use_message(resume.parked.message_id if resume else self._new_id())
        self._step: ModelStep | None = None

    # -- small helpers --------------------------------------------------------------------

    def _new_id(self) -> str:
        return self._setup.ids.new("message")

    def _use_message(self, message_id: str) -> None:
        self._writer.message_id = message_id
        self._output.message_id = message_id

    def _rotate(self) -> None:
        """End the current assistant message; what follows gets a new id."""
        self._messages.seal(self._writer.message_id)
        self._use_message(self._new_id())

    def _chunk(self, kind: str, payload: Mapping[str, Any]) -> Chunk:
        return {
            "type": kind,
            "runId": self._setup.run_id,
            "from": "AGENT",
            "payload": dict(payload),
        }

    async def _emit(self, chunk: Chunk) -> None:
        processors = self._processors
        if processors is not None and processors.has_stream_hooks:
            passed = await processors.process_output_stream(chunk)
            if passed is None:
                return
            chunk = passed
        self._output.emit(chunk)

    async def _notify(
        self, callback: Callable[..., Awaitable[None] | None] | None, facts: Mapping[str, Any]
    ) -> None:
        if callback is None:
            return
        try:
            await call_maybe_async(callback, facts)
        except Exception:
            logger.exception("callback failed", extra={"run_id": self._setup.run_id})

    async def _save(self, entries: Sequence[ListedMessage] | None = None) -> None:
        saver = self._setup.saver
        if saver is None:
            return
        unsaved = self._messages.unsaved() if entries is None else list(entries)
        if not unsaved:
            return
        await saver.save(self._messages.to_messages(unsaved))
        for entry in unsaved:
            entry.saved = True

    # -- the run --------------------------------------------------------------------------

    async def run(self) -> None:
        """Go on until the run ends or is parked; closes the output."""
        try:
            await self._run_guarded()
        except asyncio.CancelledError:
            await shielded(self._give_up(), deadline=_LAST_SAVE_SECONDS)
            raise
        finally:
            self._output.close()

    async def _run_guarded(self) -> None:
        try:
            async with asyncio.timeout(_seconds(self._setup.model_settings, "totalMs")) as limit:
                await self._run_steps()
        except RunInterrupted:
            await self._end_aborted()
        except TripwireError as exc:
            await self._end_tripped(exc)
        except TimeoutError as exc:
            if not limit.expired():
                await self._end_failed(exc)
            else:
                error = RunTimeoutError(run_id=self._setup.run_id)
                error.__cause__ = exc
                await self._end_failed(error)
        except ExceptionGroup as exc:
            await self._end_failed(_first_of(exc))
        except BaseExceptionGroup as exc:
            if exc.subgroup(RunInterrupted) is not None:
                await self._end_aborted()
            else:
                raise
        except Exception as exc:  # noqa: BLE001 - the door of the run: it ends as failed
            await self._end_failed(exc)

    async def _run_steps(self) -> None:
        if self._resume is None:
            await self._start()
            goes_on = True
        else:
            goes_on = await self._resume_step(self._resume)
        while goes_on:
            goes_on = await self._iterate()
        if not self._is_parked:
            await self._end_finished()

    async def _start(self) -> None:
        self._started_at = self._setup.clock.now()
        await self._emit(
            self._chunk("start", {"id": self._setup.agent_id, "messageId": self._writer.message_id})
        )
        if self._processors is not None:
            await self._processors.process_input()
        opening = [s for s in self._setup.opening_signals if self._messages.find(s.id)]
        for signal in opening:
            await self._emit(echo_chunk(signal))
        entered = [self._messages.add_signal(s) for s in self._setup.signals.drain_pre_run()]
        for signal in entered:
            await self._emit(echo_chunk(signal))
        await self._save_signals([*opening, *entered])

    async def _save_signals(self, signals: Sequence[Signal]) -> None:
        """What a sender was told is accepted must not live in memory alone."""
        ids = {signal.id for signal in signals}
        await self._save([m for m in self._messages.unsaved() if m.id in ids])

    async def _send_signal(self, value: Mapping[str, Any]) -> Signal:
        """``send_signal`` of an input-step hook: rotate, add, echo (signals.md 14)."""
        signal = create_signal(value, clock=self._setup.clock, ids=self._setup.ids)
        self._rotate()
        entered = self._messages.add_signal(signal)
        await self._emit(echo_chunk(entered))
        return entered

    # -- one iteration --------------------------------------------------------------------

    async def _iterate(self) -> bool:
        """One model request and its tools; True if another one follows."""
        self._iteration += 1
        self._writer.begin_step()
        patch = await self._input_step()
        result = await self._ask_models(patch)
        calls = result.calls if may_run_tools(result.reason) else []
        tools = self._tool_step(calls)
        if calls:
            await self._interrupt.guard(tools.run())
            if tools.parked:
                await self._park(tools, result)
                return False
            tools.apply_results()
        return await self._finish_step(result, tools, was_resumed=False)

    async def _input_step(self) -> StepPatch:
        setup = self._setup
        patch = StepPatch(
            tool_choice=setup.tool_choice,
            active_tools=setup.active_tools,
            model_settings=setup.model_settings,
        )
        if self._processors is None:
            return patch
        return await self._processors.process_input_step(
            step_number=len(self._output.record.steps),
            steps=self._output.record.steps,
            tools=tuple(setup.tools),
            tool_choice=setup.tool_choice,
            active_tools=setup.active_tools,
            model_settings=setup.model_settings,
            send_signal=self._send_signal,
        )

    async def _ask_models(self, patch: StepPatch) -> StepResult:
        """Ask the first model; if it fails, the next (streaming.md 2.6)."""
        models = self._setup.models
        for position, model in enumerate(models):
            mark = self._writer.mark()
            try:
                return await self._ask(model, patch)
            except ModelError:
                if position + 1 == len(models):
                    raise
                logger.warning("model failed, trying the next", extra={"model": model.model_id})
                self._writer.roll_back(mark)
                self._output.record.discard_step()
        raise AssertionError("an agent has at least one model")

    async def _ask(self, model: Model, patch: StepPatch) -> StepResult:
        setup = self._setup
        self._writer.use_model(model.provider, model.model_id)
        step = ModelStep(
            model,
            run_id=setup.run_id,
            writer=self._writer,
            clock=setup.clock,
            ids=setup.ids,
        )
        self._step = step
        request = self._request(patch)
        await self._interrupt.guard(self._consume(step, model, request))
        result = step.result
        if result.reason == "error" or (
            result.reason in ("other", "unknown") and not (result.has_output)
        ):
            raise ModelError(
                f"Model {model.provider}/{model.model_id} ended with reason "
                f"{result.reason!r} and without an answer.",
                id="AGENT_STREAM_ERROR",
            )
        return result

    def _request(self, patch: StepPatch) -> ModelRequest:
        setup = self._setup
        prompt = prompt_from_messages(
            self._messages, clock=setup.clock, user_turn_first=setup.user_turn_first
        )
        if patch.system_messages is not None:
            turns = [turn for turn in prompt if turn["role"] != "system"]
            prompt = [*({**m, "role": "system"} for m in patch.system_messages), *turns]
        return ModelRequest(
            prompt=prompt,
            tools=offered_tools(setup.tools, patch.active_tools),
            tool_choice=patch.tool_choice or "auto",
            response_format=setup.response_format,
            settings={k: v for k, v in (patch.model_settings or {}).items() if k != "timeout"},
            provider_options=setup.provider_options,
            abort=self._interrupt.event,
        )

    async def _consume(self, step: ModelStep, model: Model, request: ModelRequest) -> None:
        settings = self._setup.model_settings
        try:
            async with asyncio.timeout(_seconds(settings, "stepMs")):
                parts = _with_first_limit(model.stream(request), _seconds(settings, "firstChunkMs"))
                count = 0
                async for chunk in step.chunks(parts):
                    await self._emit(chunk)
                    count += 1
                    if count % _BREATH == 0:
                        await asyncio.sleep(0)
        except TimeoutError as exc:
            raise ModelError(
                f"Model {model.provider}/{model.model_id} didn't answer in time.",
                id="MODEL_TIMEOUT",
            ) from exc

    def _tool_step(self, calls: Sequence[StepCall]) -> ToolStep:
        return ToolStep(
            self._setup,
            emit=self._emit,
            writer=self._writer,
            calls=calls,
            abort=self._interrupt.event,
            prompt_messages=lambda: [
                m.to_wire() for m in self._messages.to_messages(self._messages.messages)
            ],
        )

    # -- the end of a step ----------------------------------------------------------------

    async def _finish_step(self, result: StepResult, tools: ToolStep, *, was_resumed: bool) -> bool:
        goes_on = wants_another_step(
            result.reason,
            pending_calls=len(tools.calls),
            open_client_calls=tools.open_client_calls,
            has_output=result.has_output,
        )
        reason = result.reason
        has_rotated = was_resumed
        if was_resumed:
            self._rotate()
        drained = self._setup.signals.drain_pending()
        if drained and not self._interrupt.is_aborted:
            self._rotate()
            has_rotated = True
            for signal in drained:
                await self._emit(echo_chunk(self._messages.add_signal(signal)))
            reason, goes_on = "other", True
            await self._save()
        if goes_on and await self._must_stop(result):
            goes_on = False
        await self._emit_step_finish(result, reason, goes_on=goes_on, has_rotated=has_rotated)
        steps = self._output.record.steps
        if steps:
            await self._notify(self._setup.callbacks.on_step_finish, steps[-1])
        return goes_on

    async def _must_stop(self, result: StepResult) -> bool:
        """Stop conditions, asked only if the loop would go on."""
        setup = self._setup
        done = len(self._output.record.steps) + 1
        limit = setup.max_steps
        if limit is None and not setup.stop_when:
            limit = DEFAULT_MAX_STEPS
        if limit is not None and done >= limit:
            return True
        steps = [
            *self._output.record.steps,
            {"text": result.text, "finishReason": result.reason, "usage": result.usage},
        ]
        for condition in setup.stop_when:
            if await call_maybe_async(condition, steps):
                return True
        return False

    async def _emit_step_finish(
        self, result: StepResult, reason: str, *, goes_on: bool, has_rotated: bool
    ) -> None:
        step_result: dict[str, Any] = {"reason": reason, "isContinued": goes_on}
        if has_rotated:
            step_result["messageId"] = self._writer.message_id
        payload = self._step_payload(result, step_result)
        self._last_finish = payload
        await self._emit(self._chunk("step-finish", payload))

    def _step_payload(self, result: StepResult, step_result: dict[str, Any]) -> dict[str, Any]:
        return {
            "messageId": self._writer.message_id,
            "stepResult": step_result,
            "metadata": result.metadata,
            "output": {
                "text": result.text,
                "toolCalls": [call.to_wire() for call in result.calls],
                "usage": result.usage,
            },
            "processorRetryCount": 0,
        }

    # -- suspension and resume --------------------------------------------------------------

    async def _park(self, tools: ToolStep, result: StepResult) -> None:
        """Store the run so that anybody can answer it, then say so on the stream."""
        setup = self._setup
        self._use_parked_metadata(tools)
        await self._save()
        parked = ParkedRun(
            run_id=setup.run_id,
            agent_id=setup.agent_id,
            thread_id=self._messages.thread_id,
            resource_id=self._messages.resource_id,
            message_id=self._writer.message_id,
            iteration=self._iteration,
            step=self._step_payload(result, {"reason": result.reason, "isContinued": True}),
            calls=[call.to_wire() for call in tools.calls],
            outcomes=list(tools.outcomes),
            stream_state=self._output.record.serialize(self._messages.serialize()),
            request_context=_storable_context(setup.request_context),
            started_at=self._started_at,
        )
        if setup.snapshots is None:
            raise MastraError(
                "The run needs an answer, but the agent has no storage to wait in.",
                id="AGENT_SUSPEND_NO_STORAGE",
            )
        if self._resume is not None:
            parked.receipts = self._open_receipts(tools)
            parked.extra = self._resume.parked.extra
            parked.tracing_context = self._resume.parked.tracing_context
        claim_id = setup.claim.claim_id if setup.claim is not None else None
        await setup.snapshots.park(parked, claim_id=claim_id)
        self._is_parked = True
        if setup.on_parked is not None:
            setup.on_parked()
        for call, outcome in tools.parked:
            self._output.emit(self._parked_chunk(call, outcome))
        await self._end_suspended(result)

    def _open_receipts(self, tools: ToolStep) -> dict[str, Any]:
        """Receipts of calls that ended in earlier segments stay with the run."""
        assert self._resume is not None
        parked_ids = {call.tool_call_id for call, _ in tools.parked}
        receipts = {k: v for k, v in self._resume.parked.receipts.items() if k not in parked_ids}
        for call, outcome in zip(tools.calls, tools.outcomes, strict=True):
            if outcome is not None and not outcome.is_parked:
                receipts.setdefault(call.tool_call_id, {"finishedAt": outcome.settled_at})
        return receipts

    def _use_parked_metadata(self, tools: ToolStep) -> None:
        """Mirror what is parked in the message that holds the calls (snapshots.md 4.6)."""
        message = self._messages.response(self._writer.message_id)
        metadata = message.metadata
        for name in ("pendingToolApprovals", "suspendedTools"):
            metadata.pop(name, None)
        for call, outcome in tools.parked:
            entry: dict[str, Any] = {
                "toolCallId": call.tool_call_id,
                "toolName": call.tool_name,
                "args": call.args,
                "type": "approval" if outcome.needs_approval else "suspension",
                "runId": self._setup.run_id,
            }
            payload = outcome.suspend_payload or {}
            if not outcome.needs_approval:
                entry["suspendPayload"] = payload.get("toolCallSuspended")
            entry["resumeSchema"] = self._resume_schema(call, outcome)
            name = "pendingToolApprovals" if outcome.needs_approval else "suspendedTools"
            metadata.setdefault(name, {})[call.tool_call_id] = entry
        message.saved = False

    def _resume_schema(self, call: StepCall, outcome: CallOutcome) -> str:
        if outcome.needs_approval:
            return APPROVAL_SCHEMA_TEXT
        tool = self._setup.tools.get(call.tool_name)
        schema = tool.resume_json_schema() if tool is not None else None
        return _schema_text(schema)

    def _parked_chunk(self, call: StepCall, outcome: CallOutcome) -> Chunk:
        payload: dict[str, Any] = {"toolCallId": call.tool_call_id, "toolName": call.tool_name}
        if outcome.needs_approval:
            payload["args"] = call.args
            payload["resumeSchema"] = self._resume_schema(call, outcome)
            return self._chunk("tool-call-approval", payload)
        payload["suspendPayload"] = (outcome.suspend_payload or {}).get("toolCallSuspended")
        payload["args"] = call.args
        payload["resumeSchema"] = self._resume_schema(call, outcome)
        return self._chunk("tool-call-suspended", payload)

    async def _resume_step(self, resume: ResumePoint) -> bool:
        """Go on with the tool calls of the parked step."""
        parked = resume.parked
        await self._restore_message(parked)
        result = _result_of_parked(parked)
        tools = self._tool_step(result.calls)
        tools.outcomes = list(parked.outcomes)
        tools.mark_announced(
            [
                str(call["toolCallId"])
                for call, outcome in zip(parked.calls, parked.outcomes, strict=True)
                if outcome is not None and not outcome.is_parked
            ]
        )
        answers = {}
        for tool_call_id, data in resume.answers.items():
            outcome = parked.outcome_of(tool_call_id)
            assert outcome is not None
            answers[tool_call_id] = Answer(data=data, outcome=outcome)
        await self._interrupt.guard(self._run_resumed(tools, answers))
        if tools.parked:
            await self._park(tools, result)
            return False
        tools.apply_results()
        self._clear_parked_metadata()
        self._step = None
        return await self._finish_step(result, tools, was_resumed=True)

    async def _run_resumed(self, tools: ToolStep, answers: Mapping[str, Answer]) -> None:
        """Reuse results that a receipt already holds (snapshots.md G4), run the rest."""
        assert self._resume is not None
        receipts = self._resume.parked.receipts
        remaining = dict(answers)
        for index, call in enumerate(tools.calls):
            receipt = receipts.get(call.tool_call_id) or {}
            if call.tool_call_id in remaining and "finishedAt" in receipt:
                tools.outcomes[index] = _outcome_of_receipt(receipt, call.tool_call_id)
                del remaining[call.tool_call_id]
        await tools.run(remaining)

    async def _restore_message(self, parked: ParkedRun) -> None:
        """The message with the open calls, from the snapshot, else from storage."""
        if self._messages.find(parked.message_id) is None and self._setup.saver is not None:
            for message in await self._setup.saver.load([parked.message_id]):
                restored = self._messages.response(message.id)
                restored.created_at = message.created_at
                restored.content = dict(message.content)
                restored.saved = True
                self._messages.messages.sort(key=lambda m: m.created_at)
        if self._messages.find(parked.message_id) is None:
            for call in parked.calls:
                self._writer.call(call["toolCallId"], call["toolName"], call.get("args", {}))

    def _clear_parked_metadata(self) -> None:
        message = self._messages.find(self._writer.message_id)
        if message is None:
            return
        metadata = message.content.get("metadata") or {}
        for name in ("pendingToolApprovals", "suspendedTools"):
            metadata.pop(name, None)
        for part in message.parts:
            if str(part.get("type", "")).startswith("data-tool-call-"):
                part["data"] = {**(part.get("data") or {}), "resumed": True}

    # -- the ends of a run ------------------------------------------------------------------

    async def _forget_rows(self, error: BaseException | None = None) -> None:
        """
        Remove the rows of an ended run.

        If storage failed, a resumed run goes back to ``suspended`` instead: its receipts say
        what was done, so that the answer can be given again without doing it twice.
        """
        setup = self._setup
        if setup.snapshots is None or setup.claim is None:
            return
        if isinstance(error, StorageError):
            with suppress(StorageError):
                await setup.claim.release()
        else:
            await setup.snapshots.forget(setup.run_id, claim_id=setup.claim.claim_id)

    async def _end_finished(self) -> None:
        record = self._output.record
        payload = self._last_finish
        if self._processors is not None:
            await self._processors.process_output_result(
                {
                    "text": record.all_text,
                    "usage": record.usage,
                    "finishReason": record.finish_reason,
                    "steps": record.steps,
                }
            )
        await self._save()
        await self._forget_rows()
        await self._settle("success", record.finish_reason)
        await self._emit_finish(payload, record.total_usage)

    async def _settle(
        self, status: RunStatus, reason: str | None, error: BaseException | None = None
    ) -> None:
        self._output.settle(status, finish_reason=reason, error=error)
        full = self._output.full_output()
        full["finishReason"] = reason
        await self._notify(self._setup.callbacks.on_finish, full)

    async def _emit_finish(self, payload: Mapping[str, Any], usage: Mapping[str, Any]) -> None:
        finish = {**payload, "output": {**(payload.get("output") or {}), "usage": dict(usage)}}
        if self._setup.saver is not None:
            finish["response"] = dict(payload.get("metadata") or {})
        await self._emit(self._chunk("finish", finish))

    async def _end_suspended(self, result: StepResult) -> None:
        record = self._output.record
        # What was really used counts (decisions.md 14); the step itself is not over.
        record.usage = add_usage(record.usage, result.usage)
        await self._settle("suspended", "suspended")

    async def _end_tripped(self, error: TripwireError) -> None:
        record = self._output.record
        payload: dict[str, Any] = {"reason": error.reason, "processorId": error.processor_id}
        if error.retry:
            payload["retry"] = True
        if error.metadata is not None:
            payload["metadata"] = error.metadata
        self._output.emit(self._chunk("tripwire", payload))
        await self._forget_rows()
        record.tripwire = payload
        await self._settle("tripwire", "tripwire")

    async def _end_aborted(self) -> None:
        """What streamed is kept under the announced id (decisions.md 9, 30)."""
        self._writer.finish_step()
        self._mark_open_calls()
        self._output.emit(self._chunk("abort", {}))
        record = self._output.record
        await self._notify(
            self._setup.callbacks.on_abort, {"steps": record.steps, "text": record.all_text}
        )
        await self._save_at_end()
        await self._forget_rows()
        text = record.step_text
        await self._settle("canceled", "aborted")
        metadata = self._step.result.metadata if self._step is not None else {}
        payload = {
            "messageId": self._writer.message_id,
            "stepResult": {"reason": "abort", "isContinued": False},
            "metadata": metadata,
            "output": {
                "text": text,
                "toolCalls": [c["payload"] for c in record.step_calls],
                "usage": {},
            },
        }
        finish = {**payload, "output": {**payload["output"], "usage": record.total_usage}}
        if self._setup.saver is not None:
            finish["response"] = dict(metadata)
        self._output.emit(self._chunk("finish", finish))

    def _mark_open_calls(self) -> None:
        message = self._messages.find(self._writer.message_id)
        for part in message.parts if message is not None else ():
            invocation = part.get("toolInvocation")
            if isinstance(invocation, dict) and invocation.get("state") == "call":
                metadata = part.setdefault("providerMetadata", {})
                metadata["mastra"] = {**metadata.get("mastra", {}), "aborted": True}
                assert message is not None
                message.saved = False

    async def _save_at_end(self) -> None:
        try:
            await self._save()
        except MastraError:
            logger.exception(
                "messages of an ended run were not stored",
                extra={"run_id": self._setup.run_id},
            )

    async def _end_failed(self, error: BaseException) -> None:
        """The terminal error: recorded, stored, streamed, raised to whoever waits."""
        run_id = self._setup.run_id
        logger.info("run failed", extra={"run_id": run_id, "error": type(error).__name__})
        record = self._output.record
        wire = error_on_wire(error)
        step = self._step
        if step is not None and not step.was_answered:
            self._output.emit(step.start_chunk())
        self._writer.finish_step()
        self._writer.error(str(wire.get("name", "Error")), str(wire.get("message", "")))
        self._output.emit(self._chunk("error", {"type": "error", "error": wire}))
        await self._notify(self._setup.callbacks.on_error, {"error": error})
        await self._save_at_end()
        await self._forget_rows(error)
        result = step.result if step is not None else StepResult()
        failed = StepResult(
            text=result.text,
            calls=result.calls,
            metadata={**result.metadata, **_flat_model(result.metadata)},
        )
        payload = self._step_payload(
            failed, {"reason": "error", "warnings": result.warnings, "isContinued": False}
        )
        self._output.emit(self._chunk("step-finish", payload))
        self._output.settle("failed", finish_reason="error", error=error)
        await self._emit_finish_failed(payload, record.total_usage)

    async def _emit_finish_failed(
        self, payload: Mapping[str, Any], usage: Mapping[str, Any]
    ) -> None:
        finish = {**payload, "output": {**payload["output"], "usage": dict(usage)}}
        if self._setup.saver is not None:
            finish["response"] = dict(payload["metadata"])
        self._output.emit(self._chunk("finish", finish))

    async def _give_up(self) -> None:
        """The process is going down: keep what streamed, let the run be resumable."""
        self._writer.finish_step()
        self._mark_open_calls()
        await self._save_at_end()
        if self._setup.claim is not None:
            with suppress(StorageError):
                await self._setup.claim.release()
        self._output.settle("canceled", finish_reason="aborted")


def _seconds(settings: Mapping[str, Any], name: str) -> float | None:
    timeout = settings.get("timeout")
    value = timeout.get(name) if isinstance(timeout, Mapping) else None
    return None if value is None else float(value) / 1000


async def _with_first_limit(
    parts: AsyncIterator[ModelPart], seconds: float | None
) -> AsyncIterator[ModelPart]:
    """The same parts; the first must come within ``seconds``."""
    try:
        async with asyncio.timeout(seconds):
            first = await anext(parts)
    except StopAsyncIteration:
        return
    yield first
    async for part in parts:
        yield part


def _first_of(group: ExceptionGroup[Exception]) -> Exception:
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, ExceptionGroup) else first


def _flat_model(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Failed steps carry the model's facts beside ``modelMetadata`` too, as peers do."""
    model = metadata.get("modelMetadata") or {}
    return {k: model[k] for k in ("modelVersion", "modelProvider") if k in model}


def _storable_context(context: Mapping[str, Any]) -> dict[str, Any]:
    """Members that can't be written are dropped, secrets always (snapshots.md 3.6)."""
    kept: dict[str, Any] = {}
    for name, value in context.items():
        if name in ("mastra__authToken", "mastra__inheritedMemory"):
            continue
        try:
            kept[name] = sanitize_copy(value)
        except WireEncodeError:
            logger.warning("request context member dropped", extra={"member": name})
    return kept


def _schema_text(schema: Mapping[str, Any] | None) -> str:
    return encode(schema if schema is not None else {})


def _result_of_parked(parked: ParkedRun) -> StepResult:
    step = parked.step
    output = step.get("output") or {}
    return StepResult(
        reason=str((step.get("stepResult") or {}).get("reason") or "tool-calls"),
        text=str(output.get("text") or ""),
        calls=[
            StepCall(
                tool_call_id=str(call["toolCallId"]),
                tool_name=str(call["toolName"]),
                args=call.get("args", {}),
                provider_metadata=call.get("providerMetadata"),
            )
            for call in parked.calls
        ],
        usage=dict(output.get("usage") or {}),
        metadata=dict(step.get("metadata") or {}),
        has_output=True,
    )


def _outcome_of_receipt(receipt: Mapping[str, Any], tool_call_id: str) -> CallOutcome:
    decision = receipt.get("decision")
    output: dict[str, Any] = {}
    if "error" in receipt:
        output["error"] = receipt["error"]
    else:
        output["result"] = receipt.get("result")
        if isinstance(decision, Mapping) and decision.get("approved") is True:
            output["approval"] = {"id": tool_call_id, "approved": True}
    return CallOutcome(
        status="success",
        started_at=int(receipt.get("startedAt") or 0),
        settled_at=int(receipt.get("finishedAt") or 0),
        output=output,
    )
