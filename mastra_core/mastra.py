"""The application object: puts store, bus, leases, plugins and agents together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeVar

from mastra_core.agent.agent import Agent
from mastra_core.agent.background import executor_of_tool
from mastra_core.agent.processors import PluginProcessors, ProcessorChoices
from mastra_core.background import (
    BackgroundTaskManager,
    BackgroundTaskSettings,
    ResultWriter,
)
from mastra_core.background import settings_from as task_settings_from
from mastra_core.base.clock import Clock, SystemClock
from mastra_core.base.guarded_tracer import GuardedTracer
from mastra_core.base.ids import Ids, UuidIds
from mastra_core.base.tasks import TaskSupervisor
from mastra_core.base.telemetry import NoopTracer, Tracer
from mastra_core.config import AdapterSection, Settings, load_settings
from mastra_core.contracts.background import TaskExecutor
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.contracts.model import Model
from mastra_core.contracts.pubsub import PubSub
from mastra_core.contracts.signal_sink import SignalSink
from mastra_core.contracts.storage import Storage
from mastra_core.contracts.tool import Tool
from mastra_core.errors import CapabilityNotSupportedError, ConfigError, ModelNotFoundError
from mastra_core.notifications import (
    NOTIFICATION_DISPATCH_SCHEDULE_ROW_ID,
    AgentInbox,
    DispatchResult,
    NotificationService,
    settings_from,
)
from mastra_core.plugins import (
    AdapterContext,
    Infrastructure,
    PluginManager,
    Registry,
    open_infrastructure,
)
from mastra_core.plugins.exporters import make_exporters
from mastra_core.plugins.hookspecs import RunInfo
from mastra_core.plugins.making import make_model, make_with_options
from mastra_core.processors.runner import ProcessorRunner, ProcessorWatch
from mastra_core.threads.claims import ThreadClaims
from mastra_core.threads.inbox import ThreadInbox
from mastra_core.threads.outside import OutsideThreads
from mastra_core.threads.providers import SignalProvider
from mastra_core.threads.reach import Backends
from mastra_core.threads.record import ThreadAgent
from mastra_core.threads.runtime import ThreadRuntime
from mastra_core.threads.settings import ThreadSettings
from mastra_core.threads.settings import settings_from as thread_settings_from
from mastra_core.wire.events import Event
from mastra_core.wire.notifications import NotificationRecord
from mastra_core.wire.signals import Signal
from mastra_core.workflows.snapshot_store import AgentSnapshots

__all__ = (
    "BUILTIN_PLUGINS",
    "SCHEDULER_TOPIC",
    "Mastra",
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Plugins that need no entry point.
BUILTIN_PLUGINS: Final = ("mastra_core.inmemory.plugin",)
#: Where processes whose scheduler doesn't run yet are told that there is a schedule.
SCHEDULER_TOPIC: Final = "scheduler"
#: Seconds that runs get to end by themselves when the application closes.
_CLOSE_GRACE: Final = 0.0


def _options_for(target: object, section: AdapterSection) -> Mapping[str, Any]:
    """Options belong to the URL that they stand beside, not to one that was given instead."""
    return section.options if target is None or target == section.url else {}


class Mastra:
    """
    One application: its agents, its store and everything that runs for them.

    ``async with Mastra(storage="file:./app.db", agents=[agent]) as mastra: ...`` opens the
    store, the bus and the leases, starts the notification dispatcher, and closes them again.
    Two applications in one process share nothing.

    Args:
        storage: URL or store; in-process if not given (then nothing survives).
        pubsub: URL or bus; in-process if not given.
        lease: URL or provider; see design 4.4 for what is used if not given.
        agents: The agents that live here.
        plugins: Plugin modules or objects beside those found by entry points.
        notifications: Settings of the inbox dispatcher: see ``NotificationSettings``.
        background_tasks: True, or settings, to let tool calls run detached from their run; see
            ``BackgroundTaskSettings``. Off if not given.
        threads: Settings of threads: see ``ThreadSettings``.
        telemetry: A tracer, False to measure nothing, or options by the name of an exporter:
            ``{"otel": {...}}``. If not given, every exporter of an installed plugin is used.
        own: Close a store, bus or provider that was handed in, too.
        settings: Settings that are loaded already; read from the usual places otherwise.
        clock: Where time comes from.
        ids: Where ids come from.
    """

    def __init__(
        self,
        *,
        storage: str | Storage | None = None,
        pubsub: str | PubSub | None = None,
        lease: str | LeaseProvider | None = None,
        agents: Sequence[Agent] | Mapping[str, Agent] = (),
        plugins: Sequence[object] = (),
        notifications: Mapping[str, Any] | None = None,
        background_tasks: BackgroundTaskSettings | Mapping[str, Any] | bool | None = None,
        threads: ThreadSettings | Mapping[str, Any] | None = None,
        telemetry: Tracer | Mapping[str, Mapping[str, Any]] | bool | None = None,
        own: bool = False,
        settings: Settings | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self.ids: Ids = ids or UuidIds()
        self.instance_id = self.ids.new("instance")
        targets: dict[str, object] = {"storage": storage, "pubsub": pubsub, "lease": lease}
        self.settings = settings or load_settings(
            {role: {"url": target} for role, target in targets.items() if isinstance(target, str)}
        )
        self.plugins = PluginManager(
            plugins, builtins=BUILTIN_PLUGINS, options=self.settings.plugins.to_options()
        )
        self.registry = Registry(self.plugins)
        self._thread_settings = thread_settings_from(threads)
        self.threads = self._new_threads()
        self.runs = TaskSupervisor("agent runs")
        self._services = TaskSupervisor("services")
        self._storage_target = storage if storage is not None else self.settings.storage.url
        self._pubsub_target = pubsub if pubsub is not None else self.settings.pubsub.url
        self._lease_target = lease if lease is not None else self.settings.lease.url
        self._notification_settings = settings_from(notifications)
        self._notifications: NotificationService | None = None
        self._task_settings = task_settings_from(background_tasks)
        self._tasks: BackgroundTaskManager | None = None
        self._telemetry = telemetry
        self._tracer: Tracer = NoopTracer()
        self._own = own
        self._stack: AsyncExitStack | None = None
        self._opening = asyncio.Lock()
        self._context = AdapterContext(clock=self.clock, ids=self.ids)
        self._storage: Storage | None = None
        self._pubsub: PubSub | None = None
        self._lease: LeaseProvider | None = None
        self._snapshots: AgentSnapshots | None = None
        self._models: dict[str, Model] = {}
        self._processors = PluginProcessors(self.registry, self._context)
        self._agents: dict[str, Agent] = {}
        given: Iterable[Agent] = agents.values() if isinstance(agents, Mapping) else agents
        for agent in given:
            self.add_agent(agent)

    # -- agents ---------------------------------------------------------------------------

    @property
    def application(self) -> Mastra:
        """This object, as tools get it."""
        return self

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents by id."""
        return MappingProxyType(self._agents)

    def add_agent(self, agent: Agent) -> None:
        """
        Let an agent live here.

        Raises:
            ConfigError: Another one has its id.
        """
        if self._agents.get(agent.id, agent) is not agent:
            raise ConfigError(f"Two agents are called {agent.id!r}.")
        agent.attach(self)
        self._agents[agent.id] = agent
        if self._stack is not None and agent.signal_providers:
            self._services.start(agent.open_signals(), name=f"signals:{agent.id}")

    def make_signal_provider(self, name: str, **options: Any) -> SignalProvider:
        """
        A signal provider that a plugin offers, for an agent's ``signals``.

        Raises:
            ConfigError: Nobody offers it, or options that it doesn't know or can't use.
            PluginError: The plugin that has it can't be used.
        """
        offer = self.registry.signal_provider(name)
        made: SignalProvider = make_with_options(offer, options, self._context)
        return made

    def get_agent(self, agent_id: str) -> Agent:
        """
        The agent of this id.

        Raises:
            ConfigError: There is none; the message lists those that are.
        """
        agent = self._agents.get(agent_id)
        if agent is None:
            known = ", ".join(sorted(self._agents)) or "none"
            raise ConfigError(f"No agent is called {agent_id!r}. Known: {known}.")
        return agent

    def resolve_model(self, name: str) -> Model:
        """
        The model of a ``provider/model`` name; the same object each time.

        Raises:
            ModelNotFoundError: Nobody provides it.
        """
        known = self._models.get(name)
        if known is None:
            if not all(name.partition("/")):
                raise ModelNotFoundError(f"A model name is 'provider/model', not {name!r}.")
            known = make_model(self.registry, name, self._context)
            self._models[name] = known
        return known

    def processors_for(
        self,
        agent: Agent,
        request_context: Mapping[str, Any],
        choices: ProcessorChoices,
    ) -> ProcessorRunner:
        """
        What looks at the runs of this agent: its own processors and those of plugins.

        Raises:
            ConfigError: A processor is named that nobody offers.
        """
        return self._processors.runner_for(agent, request_context, choices)

    def tools_for(self, agent: Agent, request_context: Mapping[str, Any]) -> Sequence[Tool]:
        """The tools that plugins add to this agent; its own win over those of equal names."""
        return self.registry.agent_tools(agent=agent, request_context=request_context)

    def processor_watch(self, run: RunInfo) -> ProcessorWatch:
        """Tells plugins what the processors of a run do."""
        return self._processors.watch(run)

    # -- what is opened -------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Between ``open`` and ``aclose``."""
        return self._stack is not None

    @property
    def tracer(self) -> Tracer:
        """Measures runs, steps, requests and calls; does nothing before ``open``."""
        return self._tracer

    @property
    def storage(self) -> Storage:
        """The opened store."""
        return self._opened(self._storage)

    @property
    def pubsub(self) -> PubSub:
        """The opened bus."""
        return self._opened(self._pubsub)

    @property
    def lease(self) -> LeaseProvider:
        """The opened lease provider."""
        return self._opened(self._lease)

    @property
    def snapshots(self) -> AgentSnapshots:
        """
        Rows of parked runs.

        Raises:
            CapabilityNotSupportedError: The store keeps none.
        """
        return self.parking or AgentSnapshots(self.storage.workflows, clock=self.clock)

    @property
    def parking(self) -> AgentSnapshots | None:
        """Rows of parked runs; None if the store keeps none."""
        self._opened(self._storage)
        return self._snapshots

    @property
    def notifications(self) -> NotificationService:
        """The inbox."""
        return self._opened(self._notifications)

    @property
    def background_tasks(self) -> BackgroundTaskManager | None:
        """The manager of background tasks; None if they are off, or the store keeps none."""
        return self._tasks

    def _opened(self, value: T | None) -> T:
        if value is None:
            raise ConfigError(
                "The application isn't open.",
                hint="Use 'async with Mastra(...) as mastra:' or await mastra.open().",
            )
        return value

    async def open(self) -> None:
        """
        Open everything; opening twice, also at the same time, is harmless.

        Raises:
            MastraError: Something can't be opened; nothing stays open.
        """
        async with self._opening:
            if self._stack is not None:
                return
            try:
                await self._open()
            except BaseException:
                self._forget_opened()
                raise

    async def _open(self) -> None:
        if self.runs.is_closed:
            self._renew()
        for agent in self._agents.values():
            agent.attach(self)
        async with AsyncExitStack() as stack:
            # Closed last: what ends while the rest is closing is measured, too.
            self._tracer = await self._open_tracer(stack)
            self._context = replace(self._context, tracer=self._tracer)
            opened = await stack.enter_async_context(
                open_infrastructure(
                    self.plugins,
                    storage=self._storage_target,
                    pubsub=self._pubsub_target,
                    lease=self._lease_target,
                    context=self._context,
                    own=self._own,
                    options={
                        "storage": _options_for(self._storage_target, self.settings.storage),
                        "pubsub": _options_for(self._pubsub_target, self.settings.pubsub),
                        "lease": _options_for(self._lease_target, self.settings.lease),
                    },
                )
            )
            self._storage = opened.storage
            self._pubsub = opened.pubsub
            self._lease = opened.lease
            await opened.storage.init()
            if "workflows" in opened.storage.capabilities:
                self._snapshots = AgentSnapshots(opened.storage.workflows, clock=self.clock)
            self._notifications = self._new_inbox(opened)
            stack.push_async_callback(self._close_models)
            self._tasks = self._new_task_manager(opened)
            if self._tasks is not None:
                # Runs end before their tasks, and what tasks end as still reaches storage.
                stack.push_async_callback(self._tasks.aclose)
                await self._tasks.start()
            await self.plugins.startup(self)
            stack.push_async_callback(self.plugins.shutdown, self)
            self.threads.outside = self._new_outside(opened)
            self.threads.claims = ThreadClaims(
                pubsub=opened.pubsub,
                lease=opened.lease,
                clock=self.clock,
                ids=self.ids,
                source_id=self.ids.new("source"),
                ttl_ms=self._thread_settings.lease_ttl_ms,
                take=self.threads.take_claimed,
                cancel=self.threads.cancel_signals,
                times=self._thread_settings.claim_times,
                signer=self.threads.signer,
            )
            stack.push_async_callback(self.threads.claims.aclose)
            stack.push_async_callback(self._stop_runs)
            self.threads.on_idle = self._notifications.thread_idle
            if "notifications.claims" in opened.storage.capabilities:
                self.threads.on_given_up = self._note_given_up
            if self.threads.outside is not None:
                self.threads.outside.reach.start()
            self._services.start(self._notifications.run_loop(), name="notification-dispatcher")
            stack.push_async_callback(self._close_signals)
            for agent in self._agents.values():
                await agent.open_signals()
            self._stack = stack.pop_all()

    async def _open_tracer(self, stack: AsyncExitStack) -> Tracer:
        wanted = self._telemetry
        if isinstance(wanted, Tracer):
            return GuardedTracer({"own": wanted})
        section = self.settings.telemetry
        if wanted is False or (wanted is None and not section.enabled):
            return NoopTracer()
        options = {**section.exporters, **(wanted if isinstance(wanted, Mapping) else {})}
        tracers: dict[str, Tracer] = {}
        for name, exporter in make_exporters(self.registry, options, self._context).items():
            try:
                await stack.enter_async_context(exporter)
                tracers[name] = exporter.tracer
            except Exception:
                if name in options:
                    raise
                logger.warning("span exporter left out", exc_info=True, extra={"exporter": name})
        return GuardedTracer(tracers) if tracers else NoopTracer()

    async def _close_signals(self) -> None:
        for agent in self._agents.values():
            await agent.close_signals()

    def _renew(self) -> None:
        """Opened again after it was closed: what was stopped starts anew."""
        self.threads = self._new_threads()
        self.runs = TaskSupervisor("agent runs")
        self._services = TaskSupervisor("services")

    def _new_threads(self) -> ThreadRuntime:
        ttl_ms = self._thread_settings.suspended_run_ttl_ms
        return ThreadRuntime(
            clock=self.clock,
            ids=self.ids,
            suspended_run_ttl=ttl_ms / 1000,
            limits=self._thread_settings.limits,
            signer=self._thread_settings.signer,
        )

    def _new_outside(self, opened: Infrastructure) -> OutsideThreads | None:
        """What other processes share with this one; None if its threads are its own."""
        if not opened.lease.lease_capabilities.cross_process:
            return None
        store, source_id = opened.storage, self.ids.new("source")
        keeps_input = "thread_state.compare_and_set" in store.capabilities and not store.volatile
        backends = Backends(
            source_id=source_id,
            clock=self.clock,
            pubsub=opened.pubsub if opened.pubsub.capabilities.cross_process else None,
            lease=opened.lease,
            inbox=(
                ThreadInbox(store.thread_state, clock=self.clock, source_id=source_id)
                if keeps_input
                else None
            ),
            guards=store.memory if "storage.guarded_writes" in store.capabilities else None,
            ttl_ms=self._thread_settings.lease_ttl_ms,
            renew_ms=self._thread_settings.lease_renew_ms,
            hand_over_ms=self._thread_settings.hand_over_ms,
            keep_parts_ms=self._thread_settings.keep_parts_ms,
            signer=self.threads.signer,
        )
        return OutsideThreads(self.threads, backends, find_agent=self._find_turns)

    def _find_turns(self, agent_id: str) -> ThreadAgent | None:
        agent = self._agents.get(agent_id)
        return None if agent is None else agent.turns

    def _new_inbox(self, opened: Infrastructure) -> NotificationService:
        capabilities = opened.storage.capabilities
        return NotificationService(
            opened.storage.notifications if "notifications.claims" in capabilities else None,
            opened.storage.schedules if "schedules" in capabilities else None,
            clock=self.clock,
            ids=self.ids,
            settings=self._notification_settings,
            find=self._find_inbox,
            agent_ids=lambda: list(self._agents),
            on_failed=_log_failed,
            announce=self._announce_schedule,
            tracer=self._tracer,
        )

    def _new_task_manager(self, opened: Infrastructure) -> BackgroundTaskManager | None:
        if not self._task_settings.enabled:
            return None
        capabilities = opened.storage.capabilities
        if "background_tasks" not in capabilities:
            raise CapabilityNotSupportedError(
                "The store keeps no background tasks, so they can't be switched on.",
            )
        return BackgroundTaskManager(
            opened.storage.background_tasks,
            opened.pubsub,
            opened.lease,
            results=(
                ResultWriter(opened.storage.memory, clock=self.clock)
                if "memory" in capabilities
                else None
            ),
            settings=self._task_settings,
            clock=self.clock,
            ids=self.ids,
            worker_id=self.instance_id,
            find_executor=self._find_executor,
            tracer=self._tracer,
        )

    def _find_executor(self, agent_id: str, tool_name: str) -> TaskExecutor | None:
        agent = self._agents.get(agent_id) or _member_of_teams(self._agents.values(), agent_id)
        return None if agent is None else executor_of_tool(agent, tool_name)

    def signal_sink(self, agent_id: str) -> SignalSink | None:
        """Where signals of this agent go; None if it isn't here."""
        agent = self._agents.get(agent_id)
        return agent.turns if agent is not None else None

    def _find_inbox(self, agent_id: str) -> AgentInbox | None:
        agent = self._agents.get(agent_id)
        return agent.inbox if agent is not None else None

    async def _note_given_up(
        self, agent_id: str, resource_id: str, thread_id: str, signal: Signal, error: Exception
    ) -> None:
        """A signal could not be answered, however often it was tried: the inbox says so."""
        agent = self._agents.get(agent_id)
        if agent is None:
            return
        await agent.send_notification_signal(
            {
                "source": "mastra",
                "kind": "signal-not-answered",
                "priority": "medium",
                "summary": f"No run could be started for the signal {signal.id}: {error}",
                "payload": {"signalId": signal.id, "error": str(error)},
                "dedupe_key": f"signal-not-answered:{signal.id}",
            },
            resource_id=resource_id,
            thread_id=thread_id,
        )

    async def _announce_schedule(self) -> None:
        """Wake schedulers that aren't running yet (notifications.md 11)."""
        await self.pubsub.publish(
            SCHEDULER_TOPIC,
            Event(type="scheduler.wake", run_id=NOTIFICATION_DISPATCH_SCHEDULE_ROW_ID, data={}),
        )

    async def dispatch_due_notifications(
        self, *, now: datetime | None = None, limit: int | None = None
    ) -> DispatchResult:
        """
        Deliver what is due in the inbox now, without waiting for the dispatcher's next look.

        Raises:
            NotificationError: The store has no inbox.
            StorageError: Due records can't be claimed.
        """
        return await self.notifications.dispatch_due(now=now, limit=limit)

    async def _stop_runs(self) -> None:
        self.notifications.stop()
        await self._services.close()
        await self.threads.close(grace=_CLOSE_GRACE)
        await self.runs.close(grace=_CLOSE_GRACE)
        await self.threads.store_waiting()
        if self.threads.outside is not None:
            await self.threads.outside.aclose()

    async def _close_models(self) -> None:
        for model in self._models.values():
            close = getattr(model, "aclose", None)
            if close is not None:
                await close()
        self._models.clear()

    async def aclose(self) -> None:
        """Stop the runs, then close what was opened, in reverse order; idempotent."""
        async with self._opening:
            stack, self._stack = self._stack, None
            try:
                if stack is not None:
                    await stack.aclose()
            finally:
                self._forget_opened()

    def _forget_opened(self) -> None:
        self._tracer = NoopTracer()
        self._storage = self._pubsub = self._lease = self._snapshots = None
        self._notifications = None
        self._tasks = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


def _log_failed(record: NotificationRecord) -> None:
    """A record was given up; the inbox keeps it for ``requeue``."""
    logger.error(
        "notification failed",
        extra={"notification_id": record.id, "thread_id": record.thread_id},
    )


def _member_of_teams(agents: Iterable[Agent], agent_id: str) -> Agent | None:
    """The agent of this id that lives here as somebody's sub-agent; None if there is none."""
    for member in [member for agent in agents for member in agent.sub_agents.values()]:
        found = member if member.id == agent_id else _member_of_teams([member], agent_id)
        if found is not None:
            return found
    return None
