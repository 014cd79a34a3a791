"""Options of one call, checked before anything is done (streaming.md 1.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from mastra_core.agent.arguments import OPTION_KINDS, check_kind, check_models
from mastra_core.agent.memory import MemoryOptions, memory_options
from mastra_core.agent.processors import ProcessorChoice, check_choices
from mastra_core.agent.tools import client_tools, tools_by_name
from mastra_core.base.merging import laid_over
from mastra_core.contracts.completion import IterationState, TaskCheck
from mastra_core.contracts.delegation import Delegation
from mastra_core.contracts.model import Model, ToolChoice
from mastra_core.contracts.tool import RequireApproval, Tool
from mastra_core.contracts.tool_hooks import PayloadTransform, ToolHooks
from mastra_core.errors import RunArgumentError, shown
from mastra_core.loop.setup import GUARDED_TYPES
from mastra_core.processors.arguments import ProcessorArgs
from mastra_core.streaming.objects import structured_output

__all__ = ("RESERVED", "RunOptions", "check_options", "options_from", "options_of", "scope_of")

#: Members of a request context that override arguments (streaming.md 1.1).
RESERVED: Final[Mapping[str, str]] = {
    "mastra__threadId": "thread_id",
    "mastra__resourceId": "resource_id",
}
_MEMORY_MEMBERS: Final = frozenset({"thread", "resource", "options", "read_only", "readOnly"})
#: Options whose members are merged, not replaced as a whole.
_SETTINGS: Final = {"model_settings", "provider_options", "request_context", "thread_metadata"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """
    What may be said about one run.

    ``thread_id`` and ``resource_id`` bind the run to a thread of the agent's memory; without
    them nothing is remembered. ``max_steps`` is 5 unless it or ``stop_when`` is given.
    """

    run_id: str | None = None
    thread_id: str | None = None
    resource_id: str | None = None
    thread_title: str | None = None
    thread_metadata: Mapping[str, Any] | None = None
    #: Remember the thread but store nothing and don't hold it.
    read_only: bool = False
    #: What of the thread's memory is used, in place of the agent's own options.
    memory_options: MemoryOptions | None = None
    instructions: str | None = None
    #: System messages beside the instructions.
    system: str | Sequence[str] | None = None
    #: Messages for the model that are not stored.
    context: Any = None
    model: Model | str | None = None
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    provider_options: Mapping[str, Any] = field(default_factory=dict)
    max_steps: int | None = None
    stop_when: Any = None
    active_tools: Sequence[str] | None = None
    #: Further tools for this call.
    tools: Sequence[Tool] | Mapping[str, Tool] | None = None
    #: Further tools by the name of their set.
    toolsets: Mapping[str, Sequence[Tool] | Mapping[str, Tool]] | None = None
    #: Tools that the client runs: their calls end the run (streaming.md 6.8). Tools, or
    #: ``{name: {description?, input_schema?}}``.
    client_tools: Sequence[Tool] | Mapping[str, Any] | None = None
    tool_choice: ToolChoice = "auto"
    require_tool_approval: RequireApproval = False
    #: A number, or ``{"limit"?: ..., "strategy"?: "available" | "called"}``.
    tool_call_concurrency: int | Mapping[str, Any] = 10
    #: Observers of tool calls.
    hooks: ToolHooks | None = None
    #: What of tool payloads goes to clients and into storage; for all tools, before their own.
    transform: PayloadTransform | None = None
    #: When the run may end.
    is_task_complete: TaskCheck | None = None
    #: Store messages after each step, not only at the end.
    save_per_step: bool = False
    #: Show what the provider sent, as ``raw`` chunks.
    include_raw_chunks: bool = False
    #: On whose behalf; tools see it.
    actor: Any = None
    request_context: Mapping[str, Any] = field(default_factory=dict)
    #: The model may answer calls of the thread that wait for data (streaming.md 6.4).
    auto_resume_suspended_tools: bool = False
    hide_signals: bool | Sequence[str] | None = None
    #: How many chunks of the run are kept for readers that are slow or come late, 256 or more;
    #: all if not given. Whoever misses one gets a ``StreamGapError``.
    max_buffered_chunks: int | None = None
    abort_signal: asyncio.Event | None = None
    input_processors: Sequence[ProcessorChoice] | None = None
    output_processors: Sequence[ProcessorChoice] | None = None
    error_processors: Sequence[ProcessorChoice] | None = None
    #: How often processors may have one step repeated (processors.md 5.2).
    max_processor_retries: int | None = None
    #: How many requests input may take the place of before they are answered; any number if
    #: not given (signals.md 10).
    max_interruptions: int | None = None
    #: Milliseconds without further input before it takes the place of a request.
    interruption_debounce_ms: int = 0
    #: Which signals pass the input processors also in mid-run, each alone: types, or all, or
    #: none (signals.md G19).
    guard_signals: bool | Sequence[str] = GUARDED_TYPES
    #: What the run is to end with: a type, or ``{schema, error_strategy?, …}`` (streaming.md 5.7).
    structured_output: Any = None
    #: Go on as long as background tasks of the thread run: True, or ``{max_idle_ms?,
    #: continue_on?}`` (streaming.md 9).
    until_idle: bool | Mapping[str, Any] | None = None
    #: Every call runs inline, whatever tools and agent say.
    disable_background_tasks: bool = False
    #: Hooks around sub-agents.
    delegation: Delegation | None = None
    #: Called before each step, after all input processors; may return a ``StepPatch``.
    prepare_step: Callable[[ProcessorArgs], Any] | None = None
    on_chunk: Callable[[dict[str, Any]], Awaitable[None] | None] | None = None
    on_step_finish: Callable[..., Awaitable[None] | None] | None = None
    #: May return ``{"continue"?: bool, "feedback"?: str}``.
    on_iteration_complete: Callable[[IterationState], Any] | None = None
    on_finish: Callable[..., Awaitable[None] | None] | None = None
    on_error: Callable[..., Awaitable[None] | None] | None = None
    on_abort: Callable[..., Awaitable[None] | None] | None = None


_NAMES = frozenset(f.name for f in fields(RunOptions))
#: None says "not given" for these.
_MAY_BE_NONE = frozenset(f.name for f in fields(RunOptions) if f.default is None)


def options_from(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> RunOptions:
    """
    Merge the agent's defaults, which were checked before, under what the call says.

    Raises:
        RunArgumentError: An option is unknown, or its value can't be one.
        ConfigError: A tool, processor or model isn't one.
    """
    defaults, given = _without_memory(defaults), _without_memory(given)
    check_options(given)
    options = _with_scope(RunOptions(**{**defaults, **_merged(defaults, given)}))
    if options.thread_id is not None and options.resource_id is None:
        raise RunArgumentError(
            "A thread_id needs the resource_id that the thread belongs to.",
            id="AGENT_MEMORY_MISSING_RESOURCE_ID",
        )
    return options


def options_of(options: RunOptions, *, but: Collection[str]) -> dict[str, Any]:
    """What was said about a run, to be said about another one, too; without these."""
    said = ((f, getattr(options, f.name)) for f in fields(options) if f.name not in but)
    return {f.name: value for f, value in said if value is not f.default and value != {}}


def _without_memory(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    The options with ``memory`` taken apart, as peers and the HTTP interface group it.

    Raises:
        RunArgumentError: A member of it is unknown, or given twice.
    """
    if "memory" not in given:
        return given
    rest = {name: value for name, value in given.items() if name != "memory"}
    memory = given["memory"]
    if memory is None:
        return rest
    if not isinstance(memory, Mapping) or (unknown := set(memory) - _MEMORY_MEMBERS):
        what = shown(memory) if not isinstance(memory, Mapping) else shown(min(unknown, key=str))
        raise RunArgumentError(
            f"memory is a mapping of {', '.join(sorted(_MEMORY_MEMBERS))}, not {what}.",
            id="AGENT_INVALID_OPTION",
            details={"argument": "memory"},
        )
    thread = memory.get("thread")
    named = thread if isinstance(thread, Mapping) else {"id": thread}
    taken = {
        "thread_id": named.get("id"),
        "thread_title": named.get("title"),
        "thread_metadata": named.get("metadata"),
        "resource_id": memory.get("resource"),
        "read_only": memory.get("read_only", memory.get("readOnly")),
        "memory_options": memory.get("options"),
    }
    taken = {name: value for name, value in taken.items() if value is not None}
    if twice := set(taken) & {name for name, value in rest.items() if value is not None}:
        raise RunArgumentError(
            f"{min(twice)} is given beside memory.",
            id="AGENT_INVALID_OPTION",
            details={"argument": min(twice)},
        )
    if isinstance(taken.get("memory_options"), Mapping):
        taken["memory_options"] = memory_options(taken["memory_options"])
    return {**rest, **taken}


def _merged(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, laid over the defaults where both are mappings of settings."""
    merged = dict(given)
    for name in _SETTINGS & set(defaults) & set(given):
        if isinstance(defaults[name], Mapping) and isinstance(given[name], Mapping):
            merged[name] = laid_over(defaults[name], given[name])
    return merged


def scope_of(request_context: Mapping[str, Any]) -> dict[str, Any]:
    """
    ``thread_id`` and ``resource_id`` that a context names; they count, whatever a caller says.

    Raises:
        RunArgumentError: One of them isn't a name.
    """
    scope = {
        name: request_context[key]
        for key, name in RESERVED.items()
        if request_context.get(key) is not None
    }
    for name, value in scope.items():
        check_kind(name, value, OPTION_KINDS[name], id="AGENT_INVALID_OPTION")
    return scope


def _with_scope(options: RunOptions) -> RunOptions:
    """Who serves many users names thread and resource in the context."""
    if options.request_context.keys().isdisjoint(RESERVED):
        return options
    scope = scope_of(options.request_context)
    if "resource_id" in scope and "thread_id" not in scope and options.thread_id is None:
        # There is no thread that it could belong to.
        del scope["resource_id"]
    return replace(options, **scope)


def check_options(given: Mapping[str, Any]) -> None:
    """
    Refuse options that can't be, each by itself.

    Raises:
        RunArgumentError: An option is unknown, or its value can't be one.
        ConfigError: A tool, processor or model isn't one.
    """
    unknown = sorted(set(given) - _NAMES, key=str)
    if unknown:
        raise RunArgumentError(
            f"Unknown option {shown(unknown[0])}. Known: {', '.join(sorted({*_NAMES, 'memory'}))}.",
            id="AGENT_UNKNOWN_OPTION",
        )
    present: dict[str, Any] = {
        name: value for name, value in given.items() if not (value is None and name in _MAY_BE_NONE)
    }
    for name, value in present.items():
        match name:
            case "tools":
                tools_by_name(value)
            case "toolsets":
                for tools in value.values() if isinstance(value, Mapping) else [value]:
                    tools_by_name(tools)
            case "client_tools":
                client_tools(value)
            case "input_processors" | "output_processors" | "error_processors":
                check_choices(value)
            case "model":
                check_models(value)
            case "structured_output":
                structured_output(value)
            case _ if name in OPTION_KINDS:
                check_kind(name, value, OPTION_KINDS[name], id="AGENT_INVALID_OPTION")
