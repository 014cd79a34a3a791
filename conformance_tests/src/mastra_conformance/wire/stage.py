"""What a scene is played on: the application, its agents, and the notebook."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from mastra_conformance.wire.bodies import Journal, SceneProcessor, tool_from_data
from mastra_conformance.wire.expressions import UnknownVocabularyError, snake_members
from mastra_conformance.wire.forms import plain
from mastra_conformance.wire.policies import policy_from_data
from mastra_conformance.wire.quiet import Quiet
from mastra_conformance.wire.scene import Scene
from mastra_core import Agent, Mastra
from mastra_core.agent.memory import MemoryOptions
from mastra_core.base.clock import Clock
from mastra_core.base.ids import UuidIds
from mastra_core.config import Settings
from mastra_core.contracts.model import ModelPart, ModelRequest
from mastra_core.contracts.storage import NotificationsStorage, Storage
from mastra_core.contracts.tool import Tool
from mastra_core.notifications import create_notification_inbox_tool
from mastra_core.streaming.output import ModelOutput
from mastra_core.testing.scripted_model import Gates, Script, ScriptedModel
from mastra_core.threads.subscription import ThreadSubscription

__all__ = ("NOTHING", "RESOURCE", "THREAD", "Stage", "open_stage")

#: Where everything happens unless a scene says otherwise.
THREAD: Final = "thread_456"
RESOURCE: Final = "user_123"
#: An action that gives nothing that the recordings list.
NOTHING: Final = object()

_TURNS: Final = 20
_KNOWN_MEMBERS: Final = {
    *("name", "tools", "memory", "notifications", "maxProcessorRetries"),
    *("inputProcessors", "outputProcessors", "errorProcessors", "backgroundTasks"),
    *("description", "subAgents"),
}


@dataclass(slots=True, kw_only=True)
class Stage:
    """The application of one scene and everything that was noted about it."""

    mastra: Mastra
    agents: Mapping[str, Agent]
    #: Every request in the order in which the models got them.
    requests: list[dict[str, Any]]
    gates: Gates
    journal: Journal
    clock: Clock
    quiet: Quiet = field(default_factory=Quiet)
    #: Results of actions by the name that the scene gave them.
    named: dict[str, Any] = field(default_factory=dict)
    aborts: dict[str, asyncio.Event] = field(default_factory=dict)
    #: Runs by name, whose chunks the recording lists.
    streams: dict[str, ModelOutput] = field(default_factory=dict)
    #: Runs that nobody waited for, by the number of their action.
    unfinished: dict[int, ModelOutput] = field(default_factory=dict)
    #: What the subscriptions got, by their name.
    heard: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    subscriptions: list[ThreadSubscription] = field(default_factory=list)
    #: What listeners for queue counts were told, and how they stop listening.
    thread_events: list[dict[str, Any]] = field(default_factory=list)
    stops: list[Callable[[], None]] = field(default_factory=list)
    thread_ids: set[str] = field(default_factory=lambda: {THREAD})

    def agent(self, action: Mapping[str, Any]) -> Agent:
        """The agent of an action: the named one, or the first."""
        name = action.get("agent")
        return self.agents[name] if name else next(iter(self.agents.values()))

    def resolve(self, value: Any) -> Any:
        """Replace ``{"$ref": "s1.runId"}`` by what an earlier action gave."""
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        if set(value) == {"$ref"}:
            name, _, member = value["$ref"].partition(".")
            found: Any = self.named[name]
            for step in member.split("."):
                found = found[step]
            return found
        return {name: self.resolve(member) for name, member in value.items()}

    def listen(self, name: str, subscription: ThreadSubscription) -> None:
        """Write down what a subscription gets until the end of the scene."""
        chunks = self.heard.setdefault(name, [])

        async def read() -> None:
            async for chunk in subscription.stream:
                chunks.append(chunk)

        self.subscriptions.append(subscription)
        self.quiet.ignore(asyncio.create_task(read(), name=f"subscription:{name}"))

    async def settle(self) -> None:
        """Wait until nothing happens any more and everybody has heard of everything."""
        await self.quiet.wait()
        for _ in range(_TURNS):
            await asyncio.sleep(0)


@asynccontextmanager
async def open_stage(scene: Scene, store: Storage, clock: Clock) -> AsyncIterator[Stage]:
    """Build what the scene's ``setup`` describes on a store, and take it down again."""
    gates, journal = Gates(), Journal()
    described: Mapping[str, Mapping[str, Any]] = scene.setup.get("agents", {})
    requests: list[dict[str, Any]] = []
    agents: dict[str, Agent] = {}
    for name, data in described.items():
        agents[name] = _agent(
            name,
            data,
            _NotedModel(name, scene.script.get(name, ()), gates, requests),
            _Props(gates=gates, journal=journal, inbox=store.notifications),
            # Described before whoever calls them.
            {worker: agents[worker] for worker in data.get("subAgents", ())},
        )
    async with Mastra(
        storage=None if scene.setup.get("noStorage") else store,
        lease="memory:",
        agents=list(agents.values()),
        settings=Settings(),
        notifications={"enabled": False},
        background_tasks=scene.setup.get("mastra", {}).get("backgroundTasks"),
        clock=clock,
        ids=UuidIds(),
    ) as mastra:
        stage = Stage(
            mastra=mastra,
            agents=agents,
            requests=requests,
            gates=gates,
            journal=journal,
            clock=clock,
        )
        try:
            yield stage
        finally:
            for subscription in stage.subscriptions:
                subscription.unsubscribe()
            for stop in stage.stops:
                stop()


class _NotedModel(ScriptedModel):
    """Says what the script says, and writes down what it is asked."""

    def __init__(
        self, name: str, calls: Sequence[Script], gates: Gates, requests: list[dict[str, Any]]
    ) -> None:
        super().__init__(calls, gates=gates)
        self._name = name
        self._noted = requests

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        shown: dict[str, Any] = {
            "agent": self._name,
            "call": len(self.requests),
            "prompt": plain(list(request.prompt)),
            "tools": [tool.name for tool in request.tools],
        }
        if request.tool_choice != "auto":
            shown["toolChoice"] = request.tool_choice
        if request.response_format is not None:
            shown["responseFormat"] = plain(request.response_format)
        self._noted.append(shown)
        return super().stream(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Props:
    """What tools and processors of a scene share."""

    gates: Gates
    journal: Journal
    inbox: NotificationsStorage

    def tool(self, name: str, data: Mapping[str, Any] | str) -> Tool:
        """The tool of a description; a bare word names one of the runtime's own."""
        if data == "inbox":
            return create_notification_inbox_tool(self.inbox)
        if isinstance(data, str):
            raise UnknownVocabularyError("tool", data)
        return tool_from_data(name, data, gates=self.gates, journal=self.journal)


def _agent(
    name: str,
    data: Mapping[str, Any],
    model: ScriptedModel,
    props: _Props,
    sub_agents: Mapping[str, Agent],
) -> Agent:
    for member in set(data) - _KNOWN_MEMBERS:
        raise UnknownVocabularyError("member of an agent", member)
    return Agent(
        id=name,
        name=data.get("name"),
        description=data.get("description", ""),
        instructions="Help.",
        model=model,
        tools={tool: props.tool(tool, body) for tool, body in data.get("tools", {}).items()},
        agents=sub_agents,
        memory=_memory(data),
        notifications=(
            {"delivery_policy": policy_from_data(data["notifications"])}
            if "notifications" in data
            else None
        ),
        input_processors=_processors(data, "inputProcessors", props.journal),
        output_processors=_processors(data, "outputProcessors", props.journal),
        error_processors=_processors(data, "errorProcessors", props.journal),
        max_processor_retries=data.get("maxProcessorRetries"),
        background_tasks=data.get("backgroundTasks"),
    )


def _memory(data: Mapping[str, Any]) -> bool | MemoryOptions:
    chosen = data.get("memory", True)
    return chosen if isinstance(chosen, bool) else MemoryOptions(**snake_members(chosen))


def _processors(data: Mapping[str, Any], kind: str, journal: Journal) -> list[SceneProcessor]:
    return [SceneProcessor(processor, journal) for processor in data.get(kind, ())]
