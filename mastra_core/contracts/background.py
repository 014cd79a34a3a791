"""Work that a run hands over: what tools, agents, the loop and the manager agree on.

A tool call may be detached from its run (streaming.md 8). Here is what a tool or an agent
declares about that, what a body learns about the task that it is, and what the loop asks; who
runs tasks is another room, see ``background``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, get_args

from mastra_core.wire.chunks import Chunk
from mastra_core.wire.tasks import BackgroundTask

__all__ = (
    "BACKGROUND_MEMBER",
    "OVERRIDE_SCHEMA",
    "AdoptedWork",
    "BackgroundContext",
    "BackgroundPolicy",
    "Disposition",
    "LiveRun",
    "RunBackground",
    "TaskExecution",
    "TaskExecutor",
    "TaskPlan",
    "background_override",
)

Disposition = Literal["foreground", "deferred", "awaited"]

#: The member of a call's arguments with which the model says otherwise (streaming.md 6.4).
BACKGROUND_MEMBER: Final = "_background"

#: The schema of ``_background`` in the arguments of eligible tools (streaming.md 6.4).
OVERRIDE_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "How this one call is to run; leave it out for the default.",
    "properties": {
        "enabled": {"type": "boolean"},
        "disposition": {"type": "string", "enum": list(get_args(Disposition))},
        "timeoutMs": {"type": "number"},
        "maxRetries": {"type": "number"},
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundPolicy:
    """What a tool, or an agent about one of its tools, says about running in the background."""

    enabled: bool = False
    #: None: what the next one says, in the end ``deferred``.
    default_disposition: Disposition | None = None
    timeout_ms: int | None = None
    max_retries: int | None = None
    #: How long a step waits for this tool's task (streaming.md 8.7).
    wait_timeout_ms: int | None = None
    #: Called with the record of a task that ended; what they raise is logged.
    on_complete: Callable[[BackgroundTask], Awaitable[None] | None] | None = None
    on_failed: Callable[[BackgroundTask], Awaitable[None] | None] | None = None


class AdoptedWork(Protocol):
    """Work that a body started itself and hands over; may have ``cancel()``."""

    @property
    def completion(self) -> Awaitable[Any]:
        """The result of the work."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundContext:
    """What a body that runs as a task knows about it (streaming.md 6.2)."""

    task_id: str
    disposition: Disposition
    #: The task then ends as this work does, whatever the body returns.
    adopt: Callable[[AdoptedWork], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    """How one call is to run, once everybody was asked (streaming.md 8.2)."""

    disposition: Disposition
    timeout_ms: int
    max_retries: int
    wait_timeout_ms: int | None = None
    policy: BackgroundPolicy | None = None


@dataclass(slots=True, kw_only=True)
class TaskExecution:
    """One attempt of a task, as its executor gets it."""

    task: BackgroundTask
    #: Set when the task is cancelled, before its coroutine is.
    abort: asyncio.Event
    #: Show a chunk to those who observe the task.
    emit: Callable[[Chunk], Awaitable[None]]
    #: Let the task wait for data; the executor returns right after it.
    suspend: Callable[[Any], Awaitable[None]]
    adopt: Callable[[AdoptedWork], None]
    disposition: Disposition = "deferred"
    resume_data: Any = None
    is_resumed: bool = False


TaskExecutor = Callable[[TaskExecution], Awaitable[Any]]


class LiveRun(Protocol):
    """A run at work here, which may hold the call of a task in its transcript."""

    @property
    def thread_id(self) -> str | None: ...

    async def take(self, task: BackgroundTask) -> bool:
        """Put the end of the task in place of the placeholder; True if that is stored, too."""
        ...


class RunBackground(Protocol):
    """What one run may hand over."""

    def instruction(self, tool_names: Iterable[str]) -> str | None:
        """What the model is told about these tools; None if none of them is eligible."""
        ...

    def is_eligible(self, tool_name: str) -> bool:
        """May calls of this tool run in the background?"""
        ...

    def plan(self, tool_name: str, override: object) -> TaskPlan | None:
        """How a call is to run, given what the model said; None in the foreground."""
        ...

    async def hand_over(
        self,
        plan: TaskPlan,
        *,
        args: Any,
        parsed: Any,
        context: Any,
        on_created: Callable[[BackgroundTask], Awaitable[None]],
    ) -> BackgroundTask | None:
        """
        Make the call a task.

        Args:
            plan: As ``plan`` gave it.
            args: The arguments as they are recorded.
            parsed: The arguments as the body gets them.
            context: The context of the call (``contracts.tool.ToolContext``).
            on_created: Called with the record before the task can end.

        Returns:
            The task; None if the call is to run inline because all places are taken.

        Raises:
            TaskLimitError: All places are taken and none may wait.
            MastraError: The task can't be recorded.
        """
        ...

    async def unfinished(self) -> list[str]:
        """Ids of the tasks of this agent and thread that wait or run."""
        ...

    def wait_limit_ms(self, *, is_first_step: bool) -> int | None:
        """How long the step that ends now waits for a task; None: not at all."""
        ...

    def awaited_limit_ms(self, plan: TaskPlan) -> int | None:
        """How long a step waits for a task that was to be awaited; None: not at all."""
        ...

    async def wait_for_end(
        self,
        task_ids: list[str],
        *,
        limit_ms: int,
        progress: Callable[[Chunk], Awaitable[None]],
    ) -> bool:
        """Wait until one of them has ended; False if the time is over."""
        ...

    async def ended_meanwhile(self, task_ids: Iterable[str]) -> list[BackgroundTask]:
        """Those of them that have ended, to heal a transcript that still holds placeholders."""
        ...

    def enter(self, live: LiveRun) -> None:
        """Let this run know when tasks of its thread end."""
        ...

    def leave(self, live: LiveRun) -> None:
        """The run is over: ends of tasks go to the stored messages from now on."""
        ...


def background_override(args: Any) -> tuple[Any, Mapping[str, Any] | None]:
    """The arguments without ``_background``, and what stood there."""
    if not isinstance(args, Mapping) or BACKGROUND_MEMBER not in args:
        return args, None
    own = {name: value for name, value in args.items() if name != BACKGROUND_MEMBER}
    given = args[BACKGROUND_MEMBER]
    return own, given if isinstance(given, Mapping) else None
