"""The agent: a model with instructions, tools and a memory (streaming.md 1)."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from mastra_core.agent.arguments import (
    OPTION_KINDS,
    check_cursor,
    check_decision,
    check_given_ids,
    check_ids,
    check_kind,
    check_models,
    check_timeout,
)
from mastra_core.agent.history import thread_history
from mastra_core.agent.host import AgentHost, LocalHost
from mastra_core.agent.memory import AgentMemory, MemoryOptions
from mastra_core.agent.messaging import AgentTurns, signal_from_user, target_from
from mastra_core.agent.options import RunOptions, check_options, options_from, scope_of
from mastra_core.agent.parked_runs import ParkedRuns
from mastra_core.agent.peers import advertisement, peer_members
from mastra_core.agent.processors import ProcessorChoice, check_choices
from mastra_core.agent.run import RunBuilder
from mastra_core.agent.sub_agents import SubAgentTool, sub_agent_tools
from mastra_core.agent.tools import Schema, ValueSchema, tools_by_name
from mastra_core.agent.until_idle import started
from mastra_core.background import AgentBackground, agent_background
from mastra_core.contracts.model import Model
from mastra_core.contracts.processor import HOOKS
from mastra_core.contracts.signal_sink import (
    IfActive,
    IfIdle,
    SendSignalResult,
    StateSignalResult,
)
from mastra_core.contracts.tool import Tool
from mastra_core.contracts.tool_hooks import ToolHooks
from mastra_core.errors import (
    ConfigError,
    MastraDeprecationWarning,
    ModelNotFoundError,
    RunArgumentError,
    RunNotFoundError,
    ToolInputError,
    no_run_storage,
    shown,
)
from mastra_core.loop.setup import RETRY_HOOKS
from mastra_core.messages.detect import MessageInput, messages_from_input
from mastra_core.notifications import (
    AgentInbox,
    DeliveryPolicy,
    NotificationInput,
    NotificationResult,
    delivery_policy_from,
)
from mastra_core.streaming.output import FullOutput, ModelOutput
from mastra_core.streaming.until_idle import UntilIdle
from mastra_core.threads.claims import Claim, Claimed, ThreadClaims
from mastra_core.threads.providers import SignalProvider
from mastra_core.threads.queue_events import QueueListener
from mastra_core.threads.subscription import ThreadSubscription
from mastra_core.wire.signals import Signal
from mastra_core.wire.snapshots import AgentRuns
from mastra_core.workflows.suspended import check_page, list_suspended_runs

__all__ = (
    "Agent",
    "Instructions",
    "policy_of",
)

Instructions = str | Callable[[], str]


class Agent:
    """
    A model with instructions, tools and a memory of threads.

    An agent works by itself (its state then lives in this process) or in a ``Mastra``, which
    gives it storage, models by name and the notification inbox.

    Args:
        id: Names the agent in storage; owns its suspended runs.
        name: For people; the id if not given.
        instructions: What the model is told first.
        model: A model, its name (``"provider/model"``, resolved by ``Mastra``), or a list to
            try in order.
        description: What it can do, for the agents that may call it.
        tools: What it may call.
        agents: Agents that it may hand work to, each as a tool ``agent-<name>``: a list (the
            name is then the id) or a mapping by name.
        memory: True to remember threads, False not to, or options.
        notifications: ``{"delivery_policy": ...}`` (notifications.md 4).
        input_processors: May look at and change what goes in: objects, or names (perhaps with
            options) of processors that plugins offer.
        output_processors: May look at and change what comes out.
        error_processors: Are asked whether a failed request is to be repeated.
        max_processor_retries: How often processors may have one step repeated; by default 3 with
            error processors, else not at all (processors.md 5.2).
        retry_hooks: Hooks whose wish for a repeat is heard.
        processor_timeout_ms: How long one hook may take, chunks excepted; no limit by default.
        background_tasks: Which tools may run detached from their run: ``{"tools": "all"}``,
            ``{"tools": {"search": True, "report": {"timeout_ms": 60000}}}``,
            ``{"disabled": True}`` (streaming.md 8.2).
        signals: Signal providers, which watch something outside and put events into the inbox
            of threads (signals.md 15).
        default_options: Options of every call, unless the call says otherwise.
        request_context_schema: Type of the request context that every run needs.
    """

    def __init__(
        self,
        *,
        id: str,
        name: str | None = None,
        description: str = "",
        instructions: Instructions = "",
        model: Model | str | Sequence[Model | str] | None = None,
        tools: Sequence[Tool] | Mapping[str, Tool] = (),
        agents: Sequence[Agent] | Mapping[str, Agent] = (),
        memory: bool | MemoryOptions = True,
        notifications: Mapping[str, Any] | None = None,
        input_processors: Sequence[ProcessorChoice] = (),
        output_processors: Sequence[ProcessorChoice] = (),
        error_processors: Sequence[ProcessorChoice] = (),
        max_processor_retries: int | None = None,
        retry_hooks: Collection[str] = RETRY_HOOKS,
        processor_timeout_ms: int | None = None,
        background_tasks: AgentBackground | Mapping[str, Any] | None = None,
        signals: Sequence[SignalProvider] = (),
        default_options: Mapping[str, Any] | None = None,
        request_context_schema: Schema = None,
    ) -> None:
        if not isinstance(id, str) or not id:
            raise ConfigError(f"An agent needs an id, a text that is not empty, not {shown(id)}.")
        if not isinstance(instructions, str) and not callable(instructions):
            raise ConfigError(
                f"Instructions are a text, or a function that returns one, not "
                f"{shown(instructions)}."
            )
        if model is not None:
            check_models(model)
        self.id = id
        self.name = name or id
        self.description = description
        self.instructions = instructions
        sub_agents = sub_agent_tools(agents)
        self.signal_providers = _providers(signals)
        self.tools = {
            name: tool
            for provided in (*(p.get_tools() for p in self.signal_providers), tools)
            for name, tool in tools_by_name(provided).items()
        }
        if taken := set(sub_agents) & set(self.tools):
            raise ConfigError(f"A tool and a sub-agent are both called {min(taken)!r}.")
        self.tools |= sub_agents
        self._policy = policy_of(id, notifications or {})
        check_choices(input_processors)
        check_choices(output_processors)
        check_choices(error_processors)
        if strangers := set(retry_hooks) - set(HOOKS):
            raise ConfigError(f"retry_hooks names {min(strangers)!r}, which is no hook.")
        self.input_processors = (
            *(one for p in self.signal_providers for one in p.get_input_processors()),
            *input_processors,
        )
        self.output_processors = (
            *output_processors,
            *(one for p in self.signal_providers for one in p.get_output_processors()),
        )
        self.error_processors = tuple(error_processors)
        for count, what in (
            (max_processor_retries, "max_processor_retries"),
            (processor_timeout_ms, "processor_timeout_ms"),
        ):
            if count is not None and (not isinstance(count, int) or count < 0):
                raise ConfigError(f"{what} is a number that isn't negative, not {shown(count)}.")
        self.max_processor_retries = max_processor_retries
        self.retry_hooks = frozenset(retry_hooks)
        self.processor_timeout_ms = processor_timeout_ms
        self.background_tasks = agent_background(background_tasks)
        #: Streams that go on until their thread is idle, by thread and resource.
        self.spans: dict[tuple[str, str], UntilIdle] = {}
        #: What has been warned of already.
        self.warned: set[str] = set()
        self._model = model
        self._context_schema = ValueSchema.of(request_context_schema)
        if not isinstance(memory, bool | MemoryOptions):
            raise ConfigError(f"memory is True, False or MemoryOptions, not {shown(memory)}.")
        self._memory_options = (
            memory if isinstance(memory, MemoryOptions) else (MemoryOptions() if memory else None)
        )
        self._defaults = dict(default_options or {})
        options_from({}, self._defaults)
        self._host: AgentHost = LocalHost()
        self._memory: AgentMemory | None = None
        #: Its runs that wait.
        self.parked = ParkedRuns(self)
        #: The agent as threads and the inbox see it.
        self.turns = AgentTurns(self)
        for provider in self.signal_providers:
            provider.connect(self)

    def __repr__(self) -> str:
        return f"Agent(id={self.id!r})"

    # -- surroundings ---------------------------------------------------------------------

    def attach(self, host: AgentHost) -> None:
        """
        Live in this application from now on; called by ``Mastra``.

        Raises:
            ConfigError: The agent is attached to another one that is open.
        """
        if self._host is not host and self._host.is_open:
            raise ConfigError(f"Agent {self.id!r} is attached to another application already.")
        self._host = host
        self._memory = None
        for agent in self.sub_agents.values():
            # One that lives elsewhere already works there.
            if agent.host is not host and not agent.host.is_open:
                agent.attach(host)

    @property
    def sub_agents(self) -> Mapping[str, Agent]:
        """The agents that it may hand work to, by name."""
        return {
            tool.name: tool.agent for tool in self.tools.values() if isinstance(tool, SubAgentTool)
        }

    @property
    def host(self) -> AgentHost:
        """Where the agent lives."""
        return self._host

    @property
    def memory(self) -> AgentMemory | None:
        """Its memory; None if it has none."""
        if self._memory_options is None:
            return None
        if self._memory is None:
            self._memory = AgentMemory(
                self._host.storage.memory, clock=self._host.clock, options=self._memory_options
            )
        return self._memory

    async def open_signals(self) -> None:
        """
        Let the signal providers watch and remember who subscribed; called by ``Mastra``, and
        once by whoever uses an agent by itself.
        """
        storage = self._host.storage
        can = storage.capabilities
        has_states = "thread_state" in can and "thread_state.compare_and_set" in can
        for provider in self.signal_providers:
            await provider.open(
                clock=self._host.clock,
                ids=self._host.ids,
                states=storage.thread_state if has_states else None,
            )

    async def close_signals(self) -> None:
        """Let the signal providers watch no more."""
        for provider in self.signal_providers:
            await provider.stop()

    async def aclose(self) -> None:
        """Stop what a standalone agent started; an attached one is closed by its host."""
        if isinstance(self._host, LocalHost):
            await self.close_signals()
            await self._host.aclose()

    def resolve_instructions(self) -> str:
        """What the model is told first."""
        return self.instructions() if callable(self.instructions) else self.instructions

    def resolve_models(self, choice: Model | str | None) -> list[Model]:
        """
        The models to ask, in order.

        Raises:
            ModelNotFoundError: The agent has none, or no provider knows a name.
        """
        chosen: Any = choice if choice is not None else self._model
        if chosen is None:
            raise ModelNotFoundError(f"Agent {self.id!r} has no model.")
        wanted = [chosen] if isinstance(chosen, str) or not isinstance(chosen, Sequence) else chosen
        if not wanted:
            raise ModelNotFoundError(f"Agent {self.id!r} has no model.")
        found = [
            self._host.resolve_model(model) if isinstance(model, str) else model for model in wanted
        ]
        for model in found:
            if getattr(model, "specification", "v2") == "v1":
                raise RunArgumentError(
                    f"Model {model.provider}/{model.model_id} has the oldest specification.",
                    id="AGENT_STREAM_V1_MODEL_NOT_SUPPORTED",
                    hint="Use a model whose specification is v2 or newer.",
                )
        return found

    def options(self, given: Mapping[str, Any]) -> RunOptions:
        """
        The options of one call, the agent's defaults under them.

        Raises:
            RunArgumentError: One can't be, or the request context lacks something.
        """
        options = options_from(self._defaults, given)
        if self._context_schema is not None:
            try:
                self._context_schema.parse(
                    dict(options.request_context), self.id, "a request context"
                )
            except ToolInputError as exc:
                raise RunArgumentError(
                    exc.message.replace("Tool", "Agent", 1),
                    id="AGENT_REQUEST_CONTEXT_VALIDATION_FAILED",
                    details=exc.details,
                ) from exc
        return options

    @property
    def tool_hooks(self) -> ToolHooks:
        """What sees the tool calls of all its runs."""
        return options_from({}, self._defaults).hooks or ToolHooks()

    # -- running --------------------------------------------------------------------------

    async def stream(self, messages: MessageInput, **options: Any) -> ModelOutput:
        """
        Run the agent; returns as soon as the run is set up, losing no chunk.

        Args:
            messages: Text, or messages of any known dialect.
            options: See ``RunOptions``.

        Raises:
            MastraError: The run could not be set up; nothing was started.
        """
        chosen = self.options(options)
        builder = RunBuilder(self, chosen)
        return await started(
            builder,
            builder.start(messages),
            thread_id=chosen.thread_id,
            resource_id=chosen.resource_id,
        )

    async def stream_until_idle(
        self, messages: MessageInput, *, max_idle_ms: int | None = None, **options: Any
    ) -> ModelOutput:
        """Deprecated: ``stream(messages, until_idle=...)``."""
        return await self.stream(messages, **options, until_idle=_until_idle(max_idle_ms))

    async def resume_stream_until_idle(
        self, resume_data: Any, *, run_id: str, max_idle_ms: int | None = None, **options: Any
    ) -> ModelOutput:
        """Deprecated: ``resume_stream(data, run_id=..., until_idle=...)``."""
        return await self.resume_stream(
            resume_data, run_id=run_id, **options, until_idle=_until_idle(max_idle_ms)
        )

    async def generate(self, messages: MessageInput, **options: Any) -> FullOutput:
        """
        Run the agent to its end and return everything at once; cancelled, it aborts the run.

        Raises:
            MastraError: The run could not be set up, or failed.
        """
        output = await RunBuilder(self, self.options(options), holds_thread=False).start(messages)
        return await _whole(output)

    async def stream_legacy(self, messages: MessageInput, **options: Any) -> ModelOutput:
        """
        Not here: models of the oldest specification aren't run.

        Raises:
            RunArgumentError: Always (id ``AGENT_STREAM_LEGACY_NOT_SUPPORTED``).
        """
        raise _legacy("stream_legacy", "stream")

    async def generate_legacy(self, messages: MessageInput, **options: Any) -> FullOutput:
        """
        Not here, as ``stream_legacy``.

        Raises:
            RunArgumentError: Always (id ``AGENT_STREAM_LEGACY_NOT_SUPPORTED``).
        """
        raise _legacy("generate_legacy", "generate")

    # -- suspended runs -------------------------------------------------------------------

    async def list_suspended_runs(
        self,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        from_date: datetime | None = None,
        to_date: datetime | None = None,
        per_page: int | None = None,
        page: int | None = None,
        after: tuple[datetime, str] | None = None,
    ) -> AgentRuns:
        """
        Runs of this agent that wait for an answer, newest first (snapshots.md 8).

        Paging needs both ``page`` and ``per_page``; ``after`` is a cursor
        ``(created_at, run_id)`` that neither skips nor repeats.

        Raises:
            RunArgumentError: A bad page or id; storage wasn't asked.
        """
        check_given_ids(thread_id=thread_id, resource_id=resource_id)
        check_cursor(after)
        check_page(per_page, page, agent_name=self.name)
        if "workflows" not in self._host.storage.capabilities:
            raise no_run_storage(self.id)
        return await list_suspended_runs(
            self._host.storage.workflows,
            agent_id=self.id,
            thread_id=thread_id,
            resource_id=resource_id,
            from_date=from_date,
            to_date=to_date,
            page=page,
            per_page=per_page,
            after=after,
            is_idempotent=lambda name: name is not None and self.parked.is_idempotent(name),
        )

    async def approve_tool_call(
        self, run_id: str, tool_call_id: str | None = None, **options: Any
    ) -> ModelOutput:
        """
        Let a parked tool call run; the run goes on.

        Of several concurrent answers, in any processes, exactly one wins.

        Args:
            run_id: The suspended run.
            tool_call_id: Which call; may be left out if only one waits.
            options: See ``resume_stream``.

        Raises:
            RunNotFoundError, ForeignRunError, NotSuspendedError, AmbiguousRunError,
            ResumeKindMismatchError, ResumeClaimedError: Nothing was executed.
        """
        return await self.parked.answer(
            {"approved": True}, run_id, tool_call_id, kind="approval", options=options
        )

    async def decline_tool_call(
        self,
        run_id: str,
        tool_call_id: str | None = None,
        reason: str | None = None,
        **options: Any,
    ) -> ModelOutput:
        """Refuse a parked tool call; the model is told the reason. Raises as approving does."""
        data: dict[str, Any] = {"approved": False}
        if reason is not None:
            data["reason"] = reason
        return await self.parked.answer(
            data, run_id, tool_call_id, kind="approval", options=options
        )

    async def resume_stream(
        self,
        resume_data: Any,
        *,
        run_id: str,
        tool_call_id: str | None = None,
        target: Literal["all"] | None = None,
        **options: Any,
    ) -> ModelOutput:
        """
        Answer a parked call with data; the tool runs again with it.

        Args:
            resume_data: Checked against the tool's resume schema before anything happens.
            run_id: The suspended run.
            tool_call_id: Which call; may be left out if only one waits.
            target: ``"all"`` gives the same data to every parked call.
            options: Run options, and ``allow_kind_mismatch``, ``rerun_unknown``.

        Raises:
            SchemaError: The data doesn't fit; the run waits on.
        """
        return await self.parked.answer(
            resume_data,
            run_id,
            tool_call_id,
            kind="data",
            options={**options, "target": target},
        )

    async def resume_generate(self, resume_data: Any, *, run_id: str, **options: Any) -> FullOutput:
        """Like ``resume_stream``, to the end."""
        output = await self.resume_stream(resume_data, run_id=run_id, **options)
        return await _whole(output)

    async def approve_tool_call_generate(
        self, run_id: str, tool_call_id: str | None = None, **options: Any
    ) -> FullOutput:
        """Like ``approve_tool_call``, to the end."""
        output = await self.approve_tool_call(run_id, tool_call_id, **options)
        return await _whole(output)

    async def decline_tool_call_generate(
        self,
        run_id: str,
        tool_call_id: str | None = None,
        reason: str | None = None,
        **options: Any,
    ) -> FullOutput:
        """Like ``decline_tool_call``, to the end."""
        output = await self.decline_tool_call(run_id, tool_call_id, reason, **options)
        return await _whole(output)

    async def cancel_run(self, run_id: str) -> bool:
        """
        End a run without an answer: one at work here is aborted, a parked one is removed.

        Returns:
            False, and nothing changes, if there is no such run (any more).

        Raises:
            ForeignRunError: It belongs to another agent.
            ResumeClaimedError: Somebody is answering it right now.
        """
        return await self.parked.cancel(run_id)

    async def send_tool_approval(
        self,
        *,
        thread_id: str,
        resource_id: str,
        approved: bool = True,
        tool_call_id: str | None = None,
        resume_data: Any = None,
        decline_context: Mapping[str, Any] | None = None,
        messages: Sequence[Any] = (),
        stream_options: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """
        Answer whatever is parked on a thread; its chunks go to the thread's readers.

        Args:
            thread_id: The thread.
            resource_id: Whose it is.
            approved: The decision.
            tool_call_id: Which call; may be left out if only one run waits.
            resume_data: Data instead of a decision.
            decline_context: What else the tool or the model gets to know.
            messages: Said along with the answer; they join the run that goes on.
            stream_options: Options of that run.

        Returns:
            ``{"accepted": True, "runId", "toolCallId"?}``.

        Raises:
            RunNotFoundError: Nothing is parked there
                (id ``AGENT_SEND_TOOL_APPROVAL_NO_ACTIVE_THREAD_RUN``).
            AmbiguousRunError: Several runs are, and no call is named.
        """
        check_ids(thread_id=thread_id, resource_id=resource_id)
        check_given_ids(tool_call_id=tool_call_id)
        check_decision(approved, decline_context)
        run_id = await self.parked.of_thread(thread_id, resource_id, tool_call_id)
        # The decision is what was decided, whatever stands in its context.
        data = (
            resume_data
            if resume_data is not None
            else {**(decline_context or {}), "approved": approved}
        )
        kind: Literal["approval", "data"] = "approval" if resume_data is None else "data"
        await self.parked.answer(
            data, run_id, tool_call_id, kind=kind, options=dict(stream_options or {})
        )
        for message in messages:
            sent = self.send_message(message, thread_id=thread_id, resource_id=resource_id)
            await sent.accepted
        accepted: dict[str, Any] = {"accepted": True, "runId": run_id}
        if tool_call_id is not None:
            accepted["toolCallId"] = tool_call_id
        return accepted

    async def send_stream_resume(
        self,
        *,
        thread_id: str = "",
        resource_id: str = "",
        run_id: str = "",
        resume_data: Any = None,
        tool_call_id: str | None = None,
        stream_options: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """
        Answer a parked run of a thread with data; its chunks go to the thread's readers.

        Returns:
            ``{"accepted": True, "runId", "toolCallId"?}``.

        Raises:
            RunArgumentError: Thread, resource or run isn't named
                (id ``AGENT_SEND_STREAM_RESUME_MISSING_TARGET``).
            RunNotFoundError: The thread has no such run
                (id ``AGENT_SEND_STREAM_RESUME_NO_SUSPENDED_THREAD_RUN``).
        """
        named = {"thread_id": thread_id, "resource_id": resource_id, "run_id": run_id}
        for name, value in named.items():
            if not value:
                raise RunArgumentError(
                    f"send_stream_resume needs a {name}.",
                    id="AGENT_SEND_STREAM_RESUME_MISSING_TARGET",
                    details={"argument": name},
                )
        check_ids(**named)
        check_given_ids(tool_call_id=tool_call_id)
        listed = await self.list_suspended_runs(thread_id=thread_id, resource_id=resource_id)
        if run_id not in [run.run_id for run in listed.runs]:
            raise RunNotFoundError(
                f"Thread {thread_id!r} has no suspended run {run_id!r} of agent {self.id!r}.",
                id="AGENT_SEND_STREAM_RESUME_NO_SUSPENDED_THREAD_RUN",
                details={"threadId": thread_id, "resourceId": resource_id, "runId": run_id},
            )
        options = dict(stream_options or {})
        await self.parked.answer(resume_data, run_id, tool_call_id, kind="data", options=options)
        accepted: dict[str, Any] = {"accepted": True, "runId": run_id}
        if tool_call_id is not None:
            accepted["toolCallId"] = tool_call_id
        return accepted

    # -- input from outside ---------------------------------------------------------------

    def send_message(self, message: Any, **target: Any) -> SendSignalResult:
        """
        Put what a user wrote into a thread: it wakes an idle one, or joins the active run.

        Args:
            message: Text, a list of parts, or ``{contents, attributes?, metadata?,
                provider_options?}``.
            target: ``resource_id``, ``thread_id``, ``if_active``, ``if_idle``.
        """
        return self.send_signal(signal_from_user(message), **target)

    def send_signal(self, signal: Mapping[str, Any] | Signal, **target: Any) -> SendSignalResult:
        """
        Put a signal into a thread (signals.md 6).

        Raises:
            SignalError: No thread is named.
            InvalidSignalError: The signal is malformed; nothing was done.
        """
        return self.turns.send_signal(signal, target_from(target))

    def queue_message(
        self, message: Any, *, queue_owner_id: str | None = None, **target: Any
    ) -> SendSignalResult:
        """
        Let what a user wrote have a run of its own, after the active one (signals.md 7.4).

        It wakes an idle thread; it neither joins a run nor interrupts one.

        Args:
            message: As for ``send_message``.
            queue_owner_id: Under this name it is counted and can be cancelled.
            target: ``resource_id``, ``thread_id``, ``if_idle``.

        Raises:
            SignalError: Resource or thread isn't named.
        """
        return self.queue_signal(signal_from_user(message), queue_owner_id=queue_owner_id, **target)

    def queue_signal(
        self,
        signal: Mapping[str, Any] | Signal,
        *,
        queue_owner_id: str | None = None,
        **target: Any,
    ) -> SendSignalResult:
        """Let a signal have a run of its own; it keeps its type. See ``queue_message``."""
        check_given_ids(queue_owner_id=queue_owner_id)
        return self.turns.queue_signal(signal, target_from(target), owner_id=queue_owner_id)

    def cancel_queued_messages(
        self,
        *,
        thread_id: str,
        resource_id: str | None = None,
        signal_ids: Sequence[str] | None = None,
        queue_owner_id: str | None = None,
    ) -> list[str]:
        """
        Take back input that waits (signals.md 8.4).

        Args:
            thread_id: The thread.
            resource_id: Part of the thread's name: left out, it is another thread.
            signal_ids: Input of any agent that waits there, also for the active run.
            queue_owner_id: What this agent queued under this name.

        Returns:
            The ids of what was removed, each once. What was stored stays.

        Raises:
            RunArgumentError: Both or neither selector is given.
        """
        if (signal_ids is None) == (queue_owner_id is None):
            raise RunArgumentError(
                "cancelQueuedMessages requires exactly one of signalIds or queueOwnerId",
                id="AGENT_INVALID_TARGET",
            )
        check_ids(thread_id=thread_id)
        check_given_ids(resource_id=resource_id, queue_owner_id=queue_owner_id)
        threads = self._host.threads
        if queue_owner_id is not None:
            return threads.cancel_owner(
                resource_id, thread_id, agent_id=self.id, owner_id=queue_owner_id
            )
        if isinstance(signal_ids, str) or not isinstance(signal_ids, Sequence):
            raise RunArgumentError(
                f"signal_ids is a list of ids, not {shown(signal_ids)}.",
                id="AGENT_INVALID_TARGET",
            )
        for signal_id in signal_ids:
            check_ids(signal_id=signal_id)
        return threads.cancel_signals(resource_id, thread_id, signal_ids)

    def subscribe_thread_events(
        self,
        listener: QueueListener,
        *,
        thread_id: str,
        resource_id: str | None = None,
        queue_owner_id: str | None = None,
    ) -> Callable[[], None]:
        """
        Learn how many turns wait on a thread of this process, now and on every change.

        Args:
            listener: Gets ``{"type": "queue-count-changed", "count": n}``; what it raises is
                logged.
            thread_id: The thread.
            resource_id: Whose it is.
            queue_owner_id: Count only what this agent queued under this name.

        Returns:
            A function that ends it; calling it twice is harmless.
        """
        check_ids(thread_id=thread_id)
        check_given_ids(resource_id=resource_id, queue_owner_id=queue_owner_id)
        if not callable(listener):
            raise RunArgumentError(
                f"A listener is a function, not {shown(listener)}.", id="AGENT_INVALID_TARGET"
            )
        return self._host.threads.watch_queue(
            resource_id, thread_id, listener, agent_id=self.id, owner_id=queue_owner_id
        )

    def continue_with_messages(
        self,
        messages: MessageInput,
        *,
        thread_id: str,
        resource_id: str,
        run_id: str | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """
        Go on with a conversation in a run of its own: after the active run and its input, and
        before what is queued (signals.md 8.6). An abort doesn't remove it.

        Returns:
            ``{"accepted": True, "runId"}`` at once; how the run goes is seen on the thread.
        """
        check_ids(thread_id=thread_id, resource_id=resource_id)
        check_given_ids(run_id=run_id)
        check_options(options)
        messages_from_input(messages)
        if run_id is not None:
            self._host.threads.check_new(run_id)
        started_id = self._host.threads.continue_with_messages(
            self.turns,
            messages,
            resource_id=resource_id,
            thread_id=thread_id,
            run_id=run_id,
            stream_options=options,
        )
        return {"accepted": True, "runId": started_id}

    async def send_state_signal(
        self, state: Mapping[str, Any], *, resource_id: str, thread_id: str, **target: Any
    ) -> StateSignalResult:
        """
        Tell the model of a thread what is the case, unless the thread knows (signals.md 13).

        Args:
            state: ``{id, cache_key, contents, mode?, value?, delta?, attributes?, metadata?,
                provider_options?, tag_name?}``; ``id`` names the lane, and an equal
                ``cache_key`` says that nothing has changed.
            resource_id: Whose thread it is.
            thread_id: The thread; it must be stored.
            target: ``if_active``, ``if_idle``.

        Returns:
            ``skipped`` is True if the thread knew; else how the signal was taken. What routing
            drops doesn't count as told.

        Raises:
            InvalidSignalError: The state is malformed; nothing was done.
            ThreadNotFoundError: There is no such thread of this resource.
            SignalPersistUnavailableError: The agent has no memory.
        """
        chosen = target_from({**target, "resource_id": resource_id, "thread_id": thread_id})
        return await self.turns.send_state_signal(state, chosen)

    async def claim_thread_ownership(
        self,
        *,
        thread_id: str,
        resource_id: str,
        stream_options: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
        peer: Mapping[str, Any] | bool = True,
        yield_ownership: Callable[[], Any] | None = None,
        on_ownership_yielded: Callable[[], Any] | None = None,
        on_ownership_lost: Callable[[], Any] | None = None,
    ) -> Claimed:
        """
        Have all wakes of a thread run in this session, with its options (signals.md 18).

        Other processes reach it with ``if_idle={"require_claimed_owner": True}``. A second claim
        of this process replaces the first.

        Args:
            thread_id: The thread.
            resource_id: Whose it is.
            stream_options: Options of the runs, or a function that returns them.
            peer: What ``discover_thread_peers`` finds: ``{id?, agent_id?, label?, title?,
                metadata?}``; False advertises nothing.
            yield_ownership: Asked when another process wants the claim; True lets it go.
            on_ownership_yielded: Called after it was let go.
            on_ownership_lost: Called when it was lost, since the process couldn't renew it.

        Returns:
            ``claimed`` says whether it is ours; ``await unsubscribe()`` gives it up.
        """
        check_ids(thread_id=thread_id, resource_id=resource_id)
        if isinstance(stream_options, Mapping):
            check_options(stream_options)
        return await self._claims().claim(
            Claim(
                agent=self.turns,
                resource_id=resource_id,
                thread_id=thread_id,
                stream_options=stream_options,
                peer=advertisement(self.id, resource_id, thread_id, given=peer),
                yield_ownership=yield_ownership,
                on_yielded=on_ownership_yielded,
                on_lost=on_ownership_lost,
            )
        )

    def update_thread_peer_advertisement(
        self, *, thread_id: str, resource_id: str, **changes: Any
    ) -> bool:
        """Change ``label``, ``title`` or ``metadata`` of a claim; False if none is advertised."""
        check_ids(thread_id=thread_id, resource_id=resource_id)
        claim = self._claims().local(resource_id, thread_id)
        if claim is None or claim.agent is not self.turns:
            return False
        return self._claims().update_peer(claim, peer_members(changes))

    async def discover_thread_peers(self, *, timeout_ms: int = 100) -> list[dict[str, Any]]:
        """
        Sessions that can be reached, here and in other processes, sorted by id.

        It is what answered in time, no promise that a message arrives.
        """
        return await self._claims().discover_peers(self.id, timeout_ms=timeout_ms)

    def _claims(self) -> ThreadClaims:
        claims = self._host.threads.claims
        if claims is None:
            raise ConfigError(f"Claims of agent {self.id!r} need an open application with a bus.")
        return claims

    async def send_notification_signal(
        self,
        notification: NotificationInput | Sequence[NotificationInput],
        *,
        resource_id: str,
        thread_id: str,
        if_active: Mapping[str, Any] | IfActive | None = None,
        if_idle: Mapping[str, Any] | IfIdle | None = None,
    ) -> NotificationResult | list[NotificationResult]:
        """
        Put events into the inbox of a thread and let the delivery policy decide
        (notifications.md 6); a list in gives a list out, in order.

        Raises:
            MastraError: Bad input (nothing written), or no inbox in this store.
        """
        target = target_from(
            {
                "resource_id": resource_id,
                "thread_id": thread_id,
                "if_active": if_active,
                "if_idle": if_idle,
            }
        )
        return await self._host.notifications.ingest(self.inbox, notification, target)

    @property
    def inbox(self) -> AgentInbox:
        """The agent as the notification inbox delivers to it."""
        return AgentInbox(sink=self.turns, policy=self._policy)

    def subscribe_to_thread(
        self,
        *,
        thread_id: str,
        resource_id: str | None = None,
        hide_signals: bool | Sequence[str] | None = None,
        with_initial_history: bool | Mapping[str, Any] = False,
        request_context: Mapping[str, Any] | None = None,
    ) -> ThreadSubscription:
        """
        Follow every run of a thread, whichever agent's (signals.md 12).

        Subscribe before you send: a run that is active is replayed, one that has ended isn't.
        Awaiting the subscription waits until runs of other processes are heard, too.

        Args:
            thread_id: The thread.
            resource_id: Whose it is; left out, it is another thread.
            hide_signals: True hides all signals, a list those of the named types.
            with_initial_history: Begin with a chunk ``thread-history`` that holds the newest
                stored messages, ``{"per_page": 40}`` by default; of the active run follows
                what they don't say.
            request_context: What is known about who reads. As for runs, its members
                ``mastra__threadId`` and ``mastra__resourceId`` count instead of the arguments.

        Raises:
            RunArgumentError: An argument can't be one.
            ClosedError: The application is closed.
        """
        check_ids(thread_id=thread_id)
        check_given_ids(resource_id=resource_id)
        if request_context is not None:
            kind = OPTION_KINDS["request_context"]
            check_kind("request_context", request_context, kind, id="AGENT_INVALID_OPTION")
            scope = scope_of(request_context)
            check_given_ids(**scope)
            thread_id = scope.get("thread_id", thread_id)
            resource_id = scope.get("resource_id", resource_id)
        return self._host.threads.subscribe(
            resource_id,
            thread_id,
            hide_signals=hide_signals,
            history=thread_history(
                lambda: self.memory, thread_id, resource_id, wanted=with_initial_history
            ),
        )

    def abort_thread_stream(
        self,
        *,
        thread_id: str,
        resource_id: str | None = None,
        clear_pending_signals: bool = False,
        expected_run_id: str | None = None,
        local_only: bool = False,
    ) -> bool:
        """
        Abort the run of a thread (signals.md 8.5).

        Args:
            thread_id: The thread.
            resource_id: Whose it is; left out, it is another thread.
            clear_pending_signals: Also drop all input that waits there, even if no run is
                active; else it is answered by new runs.
            expected_run_id: Do nothing if another run has the thread.
            local_only: Leave runs of other processes alone; else one that this process has
                heard of, since there is a reader of the thread here, is asked to end.

        Returns:
            False if there is no (such) run.
        """
        check_ids(thread_id=thread_id)
        check_given_ids(resource_id=resource_id, expected_run_id=expected_run_id)
        return self._host.threads.abort(
            resource_id,
            thread_id,
            clear_pending_signals=clear_pending_signals,
            expected_run_id=expected_run_id,
            local_only=local_only,
        )

    async def abort_thread_stream_and_wait(
        self,
        *,
        thread_id: str,
        resource_id: str | None = None,
        clear_pending_signals: bool = False,
        expected_run_id: str | None = None,
        local_only: bool = False,
        timeout_ms: int = 10_000,
    ) -> bool:
        """
        Abort the run of a thread and wait until it is over (signals.md G13).

        When this returns, the run has said and stored all that it will, in whichever process
        it was. One of another process is found without a reader here. A run that waits for a
        decision stays, and ends with that; this doesn't wait for it.

        Args:
            thread_id: The thread.
            resource_id: Whose it is; left out, it is another thread.
            clear_pending_signals: Also drop all input that waits there.
            expected_run_id: Do nothing if another run has the thread.
            local_only: Leave runs of other processes alone.
            timeout_ms: How long to wait.

        Returns:
            False if there is no (such) run, or if it ended by itself, since its process didn't
            listen to this one (signals.md G17).

        Raises:
            RunTimeoutError: It isn't over in time; it was asked to end.
            LeaseUnavailableError: Nobody knows whose the thread is.
            PubSubError: The process that has the thread can't be asked.
        """
        check_ids(thread_id=thread_id)
        check_given_ids(resource_id=resource_id, expected_run_id=expected_run_id)
        check_timeout(timeout_ms)
        return await self._host.threads.abort_and_wait(
            resource_id,
            thread_id,
            clear_pending_signals=clear_pending_signals,
            expected_run_id=expected_run_id,
            local_only=local_only,
            timeout_ms=timeout_ms,
        )

    def abort_run_stream(self, run_id: str) -> bool:
        """
        Abort a run by its id (signals.md 8.5); one that isn't known here is aborted when it
        begins, and the answer is False.

        Raises:
            ForeignRunError: It belongs to another agent.
        """
        check_ids(run_id=run_id)
        return self._host.threads.abort_stream(run_id, agent_id=self.id)

    def list_active_thread_runs(self) -> list[dict[str, str]]:
        """``{run_id, resource_id?, thread_id}`` of all threads that a run holds in this process."""
        return self._host.threads.active_runs()

    def get_active_thread_run_id(
        self, *, thread_id: str, resource_id: str | None = None
    ) -> str | None:
        """The run that holds the thread in this process; None if it is idle."""
        check_ids(thread_id=thread_id)
        check_given_ids(resource_id=resource_id)
        return self._host.threads.active_run_id(resource_id, thread_id)


async def _whole(output: ModelOutput) -> FullOutput:
    """Everything of a run that only its caller can see: it ends with whoever waits for it."""
    try:
        return await output.get_full_output()
    except asyncio.CancelledError:
        output.abort()
        raise


def _legacy(name: str, other: str) -> RunArgumentError:
    return RunArgumentError(
        f"{name} was for models of the oldest specification, which are not supported.",
        id="AGENT_STREAM_LEGACY_NOT_SUPPORTED",
        hint=f"Use {other}(...).",
    )


def _providers(signals: Sequence[SignalProvider]) -> tuple[SignalProvider, ...]:
    if isinstance(signals, str) or not isinstance(signals, Sequence):
        raise ConfigError(f"signals is a list of signal providers, not {shown(signals)}.")
    for provider in signals:
        if not isinstance(provider, SignalProvider):
            raise ConfigError(f"{shown(provider)} is no SignalProvider.")
    ids = [provider.id for provider in signals]
    if len(set(ids)) < len(ids):
        raise ConfigError(f"Two signal providers have one id: {', '.join(sorted(ids))}.")
    return tuple(signals)


def _until_idle(max_idle_ms: int | None) -> Mapping[str, Any] | bool:
    warnings.warn(
        "stream_until_idle is deprecated; say stream(..., until_idle=True).",
        MastraDeprecationWarning,
        stacklevel=3,
    )
    return True if max_idle_ms is None else {"max_idle_ms": max_idle_ms}


def policy_of(agent_id: str, notifications: Mapping[str, Any]) -> DeliveryPolicy:
    """
    The delivery policy in an agent's ``notifications`` settings.

    Raises:
        ConfigError: A setting is unknown or malformed.
    """
    unknown = sorted(set(notifications) - {"delivery_policy", "deliveryPolicy"})
    if unknown:
        raise ConfigError(
            f"Agent {agent_id!r} has an unknown notification setting {unknown[0]!r}. "
            "Known: delivery_policy."
        )
    given = notifications.get("delivery_policy", notifications.get("deliveryPolicy"))
    return delivery_policy_from(given)
