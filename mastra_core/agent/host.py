"""Where an agent lives: what it needs from its application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mastra_core.agent.processors import ProcessorChoices
from mastra_core.background import BackgroundTaskManager
from mastra_core.base.clock import Clock, SystemClock
from mastra_core.base.ids import Ids, UuidIds
from mastra_core.base.tasks import TaskSupervisor
from mastra_core.base.telemetry import NoopTracer, Tracer
from mastra_core.contracts.model import Model
from mastra_core.contracts.storage import Storage
from mastra_core.contracts.tool import Tool
from mastra_core.errors import ModelNotFoundError
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.notifications import NotificationService
from mastra_core.plugins.hookspecs import RunInfo
from mastra_core.processors.runner import ProcessorRunner, ProcessorWatch
from mastra_core.threads.runtime import ThreadRuntime
from mastra_core.workflows.snapshot_store import AgentSnapshots

if TYPE_CHECKING:
    from mastra_core.agent.agent import Agent

__all__ = ("AgentHost", "LocalHost")


class AgentHost(Protocol):
    """The application around an agent."""

    clock: Clock
    ids: Ids
    #: This process's incarnation, for claims and leases.
    instance_id: str
    threads: ThreadRuntime
    #: Owns the runs.
    runs: TaskSupervisor

    @property
    def tracer(self) -> Tracer:
        """Measures what goes on."""
        ...

    @property
    def is_open(self) -> bool:
        """Is it an application at work, which its agents can't leave?"""
        ...

    @property
    def storage(self) -> Storage:
        """The opened store."""
        ...

    @property
    def parking(self) -> AgentSnapshots | None:
        """Rows of parked runs; None if the store keeps none."""
        ...

    def resolve_model(self, name: str) -> Model:
        """
        The model of a ``provider/model`` name.

        Raises:
            ModelNotFoundError: Nobody provides it.
        """
        ...

    def processors_for(
        self,
        agent: Agent,
        request_context: Mapping[str, Any],
        choices: ProcessorChoices,
    ) -> ProcessorRunner:
        """
        What looks at the runs of this agent.

        Raises:
            ConfigError: A processor is named that nobody offers.
        """
        ...

    def tools_for(self, agent: Agent, request_context: Mapping[str, Any]) -> Sequence[Tool]:
        """The tools that this agent gets beside its own."""
        ...

    def processor_watch(self, run: RunInfo) -> ProcessorWatch | None:
        """Who learns what the processors of a run do."""
        ...

    @property
    def notifications(self) -> NotificationService:
        """The inbox of the application."""
        ...

    @property
    def background_tasks(self) -> BackgroundTaskManager | None:
        """Where calls go that run detached from their run; None if they don't."""
        ...


class LocalHost:
    """The surroundings of a standalone agent: everything in this process, nothing durable."""

    def __init__(self, *, clock: Clock | None = None, ids: Ids | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.ids: Ids = ids or UuidIds()
        self.instance_id = self.ids.new("instance")
        self.storage: Storage = InMemoryStorage()
        self.parking: AgentSnapshots | None = AgentSnapshots(
            self.storage.workflows, clock=self.clock
        )
        self.threads = ThreadRuntime(clock=self.clock, ids=self.ids)
        self.runs = TaskSupervisor("agent runs")
        self.tracer: Tracer = NoopTracer()
        self.notifications = NotificationService(
            self.storage.notifications, clock=self.clock, ids=self.ids
        )

    @property
    def background_tasks(self) -> BackgroundTaskManager | None:
        """None: everything runs inline."""
        return None

    @property
    def is_open(self) -> bool:
        """A standalone agent may join an application at any time."""
        return False

    def resolve_model(self, name: str) -> Model:
        """Names need an application that knows providers."""
        raise ModelNotFoundError(
            f"Model {name!r} can't be looked up: the agent isn't part of a Mastra application.",
            hint="Give the agent a model object, or add it to Mastra(agents=[...]).",
        )

    def processors_for(
        self,
        agent: Agent,
        request_context: Mapping[str, Any],
        choices: ProcessorChoices,
    ) -> ProcessorRunner:
        """The agent's own; plugins need an application."""
        return choices.given(timeout_ms=agent.processor_timeout_ms)

    def tools_for(self, agent: Agent, request_context: Mapping[str, Any]) -> Sequence[Tool]:
        """None: plugins need an application."""
        return ()

    def processor_watch(self, run: RunInfo) -> ProcessorWatch | None:
        """Nobody looks: plugins need an application."""
        return None

    async def aclose(self) -> None:
        """Stop its runs."""
        await self.threads.close()
        await self.runs.close()
        await self.threads.store_waiting()
