"""From a call to a running loop (streaming.md 1.1, set-up order)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from mastra_core.agent.auto_resume import WaitingCalls, waiting_calls
from mastra_core.agent.background import RunBackgroundTasks
from mastra_core.agent.memory import AgentMemory
from mastra_core.agent.options import RunOptions, options_of
from mastra_core.agent.processors import ProcessorChoice, ProcessorChoices
from mastra_core.agent.titles import RunTitle
from mastra_core.agent.tools import client_tools, tools_by_name
from mastra_core.agent.tracing import end_run_span, start_run_span
from mastra_core.base.telemetry import started_span
from mastra_core.contracts.model import Model
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.contracts.tool import Tool
from mastra_core.contracts.tool_hooks import ToolHooks
from mastra_core.errors import RunArgumentError
from mastra_core.loop.interrupt import Interrupt
from mastra_core.loop.loop import AgentLoop
from mastra_core.loop.segment import ResumePoint
from mastra_core.loop.setup import Callbacks, NoSignals, RunSetup, SignalSource
from mastra_core.messages.detect import MessageInput, messages_from_input
from mastra_core.messages.message_list import MessageList
from mastra_core.processors.lane_tracking import LaneTracker
from mastra_core.processors.prepare_step import PrepareStep
from mastra_core.processors.runner import RunProcessors
from mastra_core.streaming.objects import structured_output
from mastra_core.streaming.output import ModelOutput
from mastra_core.streaming.settle import RunRecord
from mastra_core.wire.signals import Signal
from mastra_core.wire.threads import Thread
from mastra_core.workflows.resume import ClaimedRun

if TYPE_CHECKING:
    from mastra_core.agent.agent import Agent

__all__ = ("RunBuilder", "RunFacts")

#: What nobody inherits: names, the caller's hand on the run, and how long a caller waits.
_OF_ONE_RUN: Final = frozenset(
    {"run_id", "thread_id", "resource_id", "abort_signal", "until_idle", "read_only"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run, as the hooks of plugins know it."""

    run_id: str


class RunBuilder:
    """Sets up one run of an agent and starts it; whatever raises here started nothing."""

    def __init__(self, agent: Agent, options: RunOptions, *, holds_thread: bool = True) -> None:
        self._agent = agent
        self._host = agent.host
        self._options = options
        self._holds_thread = holds_thread and not options.read_only
        #: Whoever started the run waits for its background tasks.
        self.waits_elsewhere = False
        self._run_id = options.run_id or self._host.ids.new("run")
        #: What its writes carry, once the thread is its own.
        self._fence: FenceToken | None = None
        # Before anything is reserved, claimed or written.
        self._tools = self._chosen_tools()
        self._models = agent.resolve_models(options.model)

    @property
    def agent(self) -> Agent:
        """Whose run it is."""
        return self._agent

    @property
    def options(self) -> RunOptions:
        """What was said about it."""
        return self._options

    @property
    def tools(self) -> Mapping[str, Tool]:
        """What it may call, by name."""
        return self._tools

    # -- entry points ---------------------------------------------------------------------

    async def start(self, messages: MessageInput) -> ModelOutput:
        """Start a run with what a caller says."""
        return await self._start(messages, is_new=True)

    async def start_reserved(self, messages: MessageInput) -> ModelOutput:
        """Start a run with messages; its thread is reserved already."""
        self._holds_thread = True
        return await self._start(messages, is_new=False)

    async def _start(self, messages: MessageInput, *, is_new: bool) -> ModelOutput:
        given = messages_from_input(messages)
        interrupt = await self._reserve(is_new=is_new)
        try:
            message_list = await self._message_list()
            self._add_context(message_list)
            message_list.add_input(given)
            return self._launch(message_list, interrupt, opening=())
        except BaseException:
            self._give_back()
            raise

    async def start_with_signals(self, signals: Sequence[Signal]) -> ModelOutput:
        """Start a run that signals open; its thread is reserved already."""
        # Also if it stores nothing: who has the thread gives it free by ending.
        self._holds_thread = True
        interrupt = await self._reserve()
        try:
            message_list = await self._message_list()
            opening = [message_list.add_signal(signal) for signal in signals]
            return self._launch(message_list, interrupt, opening=opening)
        except BaseException:
            self._give_back()
            raise

    async def resume(self, claimed: ClaimedRun) -> ModelOutput:
        """Go on with a parked run under its claim."""
        parked = claimed.parked
        self._run_id = parked.run_id
        heartbeat = self._host.runs.start(
            claimed.claim.keep_alive(), name=f"resume-claim:{self._run_id}"
        )
        try:
            return await self._resume(claimed, heartbeat)
        except BaseException:
            heartbeat.cancel()
            raise

    async def _resume(self, claimed: ClaimedRun, heartbeat: asyncio.Task[None]) -> ModelOutput:
        parked = claimed.parked
        if parked.requires_approval and self._options.require_tool_approval is False:
            self._options = replace(self._options, require_tool_approval=True)
        state = parked.stream_state
        message_list = MessageList.deserialize(
            state.get("messageList") or {}, clock=self._host.clock, ids=self._host.ids
        )
        interrupt = await self._reserve(parked.thread_id, parked.resource_id)
        claimed.claim.on_lost = interrupt.fail
        if claimed.claim.is_lost:
            interrupt.fail(claimed.claim.lost_error())
        try:
            record = RunRecord.deserialize(state)
            output = self._output(message_list, record)
            # Caller keys win, missing ones come from the snapshot (snapshots.md 3.6).
            context = {**parked.request_context, **self._options.request_context}
            setup = self._setup(message_list, interrupt, claimed=claimed, request_context=context)
            resume = ResumePoint(parked=parked, answers=claimed.answers)
            loop = AgentLoop(setup, output, interrupt, resume=resume)
            return self._run(
                loop, output, interrupt, message_list, heartbeat=heartbeat, claimed=claimed
            )
        except BaseException:
            self._give_back(parked.thread_id, parked.resource_id)
            raise

    # -- the thread -----------------------------------------------------------------------

    async def _reserve(
        self,
        thread_id: str | None = None,
        resource_id: str | None = None,
        *,
        is_new: bool = False,
    ) -> Interrupt:
        if is_new:
            self._host.threads.check_new(self._run_id)
        thread = thread_id or self._options.thread_id
        if thread is None or not self._holds_thread:
            return Interrupt()
        resource_id = resource_id or self._options.resource_id
        reservation = await self._host.threads.reserve(
            resource_id, thread, run_id=self._run_id, agent_id=self._agent.id
        )
        self._fence = self._host.threads.fence_of(resource_id, thread)
        return reservation.interrupt

    def _give_back(self, thread_id: str | None = None, resource_id: str | None = None) -> None:
        thread = thread_id or self._options.thread_id
        if thread is not None and self._holds_thread:
            self._host.threads.cancel_reservation(
                resource_id or self._options.resource_id, thread, self._run_id
            )

    async def _message_list(self) -> MessageList:
        options = self._options
        memory = self._memory()
        message_list = MessageList(
            clock=self._host.clock,
            ids=self._host.ids,
            thread_id=options.thread_id if memory is not None else None,
            resource_id=options.resource_id if memory is not None else None,
        )
        self._add_instructions(message_list)
        if memory is not None:
            assert options.thread_id is not None
            assert options.resource_id is not None
            thread, remembered = await memory.open_and_remember(
                options.thread_id,
                options.resource_id,
                title=options.thread_title,
                metadata=options.thread_metadata,
                options=options.memory_options,
            )
            self._thread: Thread | None = thread
            message_list.add_remembered(remembered)
            if memory.remembers_nothing(options.memory_options):
                # What is said now comes after what was said, though nobody looks at that.
                message_list.last_time = await memory.last_time(options.thread_id)
        return message_list

    def _memory(self) -> AgentMemory | None:
        """The agent's memory, if this run is bound to a thread."""
        return self._own_memory() if self._options.thread_id is not None else None

    def _own_memory(self) -> AgentMemory | None:
        """The agent's memory, which takes nothing more from us when others own the thread."""
        memory = self._agent.memory
        return memory if memory is None or self._fence is None else memory.guarded(self._fence)

    def _add_instructions(self, message_list: MessageList) -> None:
        instructions = self._options.instructions or self._agent.resolve_instructions()
        texts = [instructions] if instructions else []
        system = self._options.system
        if isinstance(system, str):
            texts.append(system)
        elif system is not None:
            texts.extend(system)
        message_list.system_messages.extend({"role": "system", "content": t} for t in texts)

    def _add_context(self, message_list: MessageList) -> None:
        if self._options.context is None:
            return
        for entry in message_list.add_input(messages_from_input(self._options.context)):
            entry.source = "context"

    # -- the run --------------------------------------------------------------------------

    def _output(self, message_list: MessageList, record: RunRecord | None = None) -> ModelOutput:
        return ModelOutput(
            run_id=self._run_id,
            agent_id=self._agent.id,
            message_list=message_list,
            record=record,
            hide_signals=self._options.hide_signals,
            max_buffered_chunks=self._options.max_buffered_chunks,
        )

    def _launch(
        self, message_list: MessageList, interrupt: Interrupt, *, opening: Sequence[Signal]
    ) -> ModelOutput:
        output = self._output(message_list)
        setup = self._setup(message_list, interrupt, opening=opening)
        loop = AgentLoop(setup, output, interrupt)
        return self._run(loop, output, interrupt, message_list, opening=opening)

    def _run(
        self,
        loop: AgentLoop,
        output: ModelOutput,
        interrupt: Interrupt,
        message_list: MessageList,
        *,
        heartbeat: asyncio.Task[None] | None = None,
        opening: Sequence[Signal] = (),
        claimed: ClaimedRun | None = None,
    ) -> ModelOutput:
        threads = self._host.threads
        thread_id, resource_id = message_list.thread_id, message_list.resource_id
        if thread_id is None:
            thread_id, resource_id = self._options.thread_id, self._options.resource_id
        holds = self._holds_thread and thread_id is not None
        output.bind_abort(interrupt.abort)
        threads.entered(output, interrupt)
        if holds:
            assert thread_id is not None
            threads.register(
                resource_id,
                thread_id,
                agent=self._agent.turns,
                output=output,
                interrupt=interrupt,
                stream_options=self._follow_up_options(),
            )

        span = start_run_span(
            self._host.tracer,
            self._agent,
            output,
            opening=opening,
            resumed=claimed.parked if claimed is not None else None,
        )

        async def work() -> None:
            watch = self._watch_abort(interrupt)
            try:
                with started_span(span):
                    try:
                        await loop.run()
                    finally:
                        end_run_span(span, output)
            finally:
                threads.left(output)
                for helper in (watch, heartbeat):
                    if helper is not None:
                        helper.cancel()
                if holds:
                    assert thread_id is not None
                    threads.ended(resource_id, thread_id, output)

        self._host.runs.start(work(), name=f"run:{self._run_id}")
        return output

    def _follow_up_options(self) -> dict[str, Any]:
        """
        What a run inherits that answers what waits behind this one: all that was said about it,
        but for its own name and the caller's abort signal (signals.md 7.4, 8.2).
        """
        return options_of(self._options, but=_OF_ONE_RUN)

    def _watch_abort(self, interrupt: Interrupt) -> asyncio.Task[None] | None:
        signal = self._options.abort_signal
        if signal is None:
            return None
        if signal.is_set():
            # Before anything is asked.
            interrupt.abort()
            return None

        async def watch() -> None:
            await signal.wait()
            interrupt.abort()

        return self._host.runs.start(watch(), name=f"abort-signal:{self._run_id}")

    def _find_model(self, choice: Model | str) -> Model:
        """The model that a processor named."""
        return self._host.resolve_model(choice) if isinstance(choice, str) else choice

    def _setup(
        self,
        message_list: MessageList,
        interrupt: Interrupt,
        *,
        opening: Sequence[Signal] = (),
        claimed: ClaimedRun | None = None,
        request_context: dict[str, Any] | None = None,
    ) -> RunSetup:
        options = self._options
        context = dict(options.request_context) if request_context is None else request_context
        thread_id = message_list.thread_id
        saver = self._own_memory() if thread_id is not None and not options.read_only else None
        return RunSetup(
            agent_id=self._agent.id,
            run_id=self._run_id,
            clock=self._host.clock,
            ids=self._host.ids,
            models=self._models,
            tools=self._tools,
            active_tools=options.active_tools,
            tool_choice=options.tool_choice,
            model_settings=options.model_settings,
            provider_options=options.provider_options,
            max_steps=options.max_steps,
            structured=(
                None
                if options.structured_output is None
                else structured_output(options.structured_output)
            ),
            stop_when=_as_list(options.stop_when),
            require_tool_approval=options.require_tool_approval,
            **_concurrency(options.tool_call_concurrency),
            tool_hooks=options.hooks or ToolHooks(),
            payload_transform=options.transform,
            task_check=options.is_task_complete,
            save_per_step=options.save_per_step,
            include_raw_chunks=options.include_raw_chunks,
            rerun_unknown=claimed is not None and claimed.rerun_unknown,
            actor=options.actor,
            request_context=context,
            signals=self._signals(message_list),
            opening_signals=opening,
            saver=saver,
            suspended=self._suspended(message_list) if saver is not None else None,
            title=self._title(message_list) if saver is not None else None,
            snapshots=self._host.parking if claimed is None else claimed.claim.snapshots,
            claim=claimed.claim if claimed is not None else None,
            processors=self._processors(message_list, context, interrupt.event),
            max_processor_retries=(
                self._agent.max_processor_retries
                if options.max_processor_retries is None
                else options.max_processor_retries
            ),
            retry_hooks=self._agent.retry_hooks,
            max_interruptions=options.max_interruptions,
            interruption_debounce=options.interruption_debounce_ms / 1000,
            guard_signals=options.guard_signals,
            lanes=(
                LaneTracker.of(
                    self._host.storage, is_read_only=options.read_only, fence=self._fence
                )
                if self._agent.memory is not None
                else None
            ),
            warned=self._agent.warned,
            tracer=self._host.tracer,
            find_model=self._find_model,
            callbacks=Callbacks(
                on_chunk=options.on_chunk,
                on_step_finish=options.on_step_finish,
                on_iteration_complete=options.on_iteration_complete,
                on_finish=options.on_finish,
                on_error=options.on_error,
                on_abort=options.on_abort,
            ),
            delegation=options.delegation,
            mastra=getattr(self._host, "application", None),
            background=self._background(message_list),
        )

    def _suspended(self, message_list: MessageList) -> WaitingCalls | None:
        """What the model may answer; nothing if a person is to see every call."""
        options = self._options
        if not options.auto_resume_suspended_tools or options.require_tool_approval is not False:
            return None
        return waiting_calls(self._agent, message_list, self._tools)

    def _title(self, message_list: MessageList) -> RunTitle | None:
        memory = self._own_memory()
        titles = memory.titles(self._options.memory_options) if memory is not None else None
        if memory is None or titles is None or message_list.thread_id is None:
            return None
        chosen = titles.model
        return RunTitle(
            options=titles,
            model=self._models[0] if chosen is None else self._find_model(chosen),
            store=memory.store,
            thread_id=message_list.thread_id,
            tasks=self._host.runs,
        )

    def _background(self, message_list: MessageList) -> RunBackgroundTasks | None:
        """What the run may hand over; None if nothing, and the loop asks nobody."""
        manager = self._host.background_tasks
        if manager is None or self._options.disable_background_tasks:
            return None
        background = RunBackgroundTasks(
            manager=manager,
            agent_id=self._agent.id,
            declared=self._agent.background_tasks,
            tools=self._tools,
            run_id=self._run_id,
            thread_id=message_list.thread_id,
            resource_id=message_list.resource_id,
            waits_elsewhere=self.waits_elsewhere,
            hooks=self._options.hooks or ToolHooks(),
        )
        return background if any(map(background.is_eligible, self._tools)) else None

    def _signals(self, message_list: MessageList) -> SignalSource:
        thread_id = message_list.thread_id or self._options.thread_id
        resource_id = message_list.resource_id or self._options.resource_id
        if thread_id is None or not self._holds_thread:
            return NoSignals()
        return self._host.threads.signals_for(resource_id, thread_id, self._run_id)

    def _chosen_tools(self) -> dict[str, Tool]:
        added = self._host.tools_for(self._agent, self._options.request_context)
        tools = tools_by_name(added)
        tools.update(self._agent.tools)
        for further in (self._options.tools, *(self._options.toolsets or {}).values()):
            if further is not None:
                tools.update(tools_by_name(further))
        if self._options.client_tools is not None:
            tools.update(client_tools(self._options.client_tools))
        for name in self._options.active_tools or ():
            if name not in tools:
                raise RunArgumentError(
                    f"active_tools names {name!r}, which is none of: {', '.join(tools)}.",
                    id="AGENT_INVALID_OPTION",
                )
        return tools

    def _processors(
        self, message_list: MessageList, context: dict[str, Any], abort: asyncio.Event
    ) -> RunProcessors | None:
        options, agent = self._options, self._agent
        own = ProcessorChoices(
            input=_first(options.input_processors, agent.input_processors),
            output=_first(options.output_processors, agent.output_processors),
            error=_first(options.error_processors, agent.error_processors),
        )
        runner = self._host.processors_for(agent, context, own)
        if options.prepare_step is not None:
            runner = runner.with_last_input(PrepareStep(options.prepare_step))
        if not runner:
            return None
        return runner.for_run(
            run_id=self._run_id,
            agent_id=agent.id,
            agent=agent,
            message_list=message_list,
            request_context=context,
            abort_signal=abort,
            watch=self._host.processor_watch(RunFacts(run_id=self._run_id)),
            tracer=self._host.tracer,
        )


def _concurrency(given: int | Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        return {"tool_call_concurrency": given}
    return {
        "tool_call_concurrency": given.get("limit", 10),
        "tool_call_strategy": given.get("strategy", "available"),
    }


def _first(
    chosen: Sequence[ProcessorChoice] | None, otherwise: Sequence[ProcessorChoice]
) -> Sequence[ProcessorChoice]:
    return otherwise if chosen is None else chosen


def _as_list(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else (value,)
