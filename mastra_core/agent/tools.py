"""Define tools: from a function, or from its parts (streaming.md 6.1)."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypedDict, Unpack, get_args, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from mastra_core.background.eligibility import policy_from
from mastra_core.base.json_schema import schema_problems
from mastra_core.base.jsonjs import sanitize_copy
from mastra_core.contracts.background import BackgroundPolicy
from mastra_core.contracts.tool import RequireApproval, Tool, ToolContext
from mastra_core.contracts.tool_hooks import (
    PayloadPhase,
    PayloadTarget,
    PayloadTransform,
    ToolInput,
)
from mastra_core.errors import ConfigError, ToolInputError, shown

__all__ = (
    "Execute",
    "Function",
    "FunctionTool",
    "InputObserver",
    "Schema",
    "ToolOptions",
    "ValueSchema",
    "client_tools",
    "tool",
    "tools_by_name",
)

#: A pydantic model, any type that pydantic can validate, or a JSON schema.
Schema = Any
Function = Callable[..., Any]
Execute = Callable[[Any, ToolContext], Awaitable[Any]]
InputObserver = Callable[[ToolInput], Any]

_DRAFT = "http://json-schema.org/draft-07/schema#"


class FunctionTool:
    """
    A tool of an agent.

    Args:
        id: Unique among the tools of an agent; what the model calls it.
        description: What it does, for the model.
        input_schema: Type of the arguments; None accepts anything.
        execute: ``async (args, context) -> result``; None makes a client tool, whose call
            ends the run with the call left open.
        require_approval: True, or a function ``(args, context) -> bool``, if a person must
            agree before it runs.
        suspend_schema: Type of what ``context.suspend`` is given. A tool that declares it, or
            ``resume_schema``, is known to suspend, so that calls run one at a time.
        resume_schema: Type of the data that a suspended call is resumed with.
        idempotent: Running it again with one ``context.idempotency_key`` does no harm, so an
            interrupted call may be repeated (snapshots.md G4).
        background: True, or ``{default_disposition?, timeout_ms?, max_retries?,
            wait_timeout_ms?, on_complete?, on_failed?}``: its calls may run detached from their
            run (streaming.md 8.2).
        to_model_output: ``(result) -> content`` that the model reads in its place, such as
            ``{"type": "text", "value": ...}``; storage and stream keep the result.
        title: Its name for people.
        output_schema: Type of the result; one that doesn't fit is told to the model as such.
        request_context_schema: Type of the request context that it needs.
        strict: Ask the provider to keep to the schema of the arguments.
        provider_options: Passed to the provider with the description.
        input_examples: Arguments that would be right, for the provider.
        transform: ``{"display"?: {phase: f}, "transcript"?: {phase: f}}``: what of its payloads
            goes to clients and into storage (streaming.md 6.7).
        on_input_start: Told, like the two below, of a call while its arguments arrive.
        on_input_delta: Told of each piece of their text.
        on_input_available: Told of the whole arguments.
        on_output: ``(result)``: told what came out.
    """

    def __init__(
        self,
        *,
        id: str,
        description: str = "",
        input_schema: Schema = None,
        execute: Execute | None = None,
        require_approval: RequireApproval = False,
        suspend_schema: Schema = None,
        resume_schema: Schema = None,
        idempotent: bool = False,
        background: BackgroundPolicy | Mapping[str, Any] | bool | None = None,
        to_model_output: Callable[[Any], Any] | None = None,
        title: str | None = None,
        output_schema: Schema = None,
        request_context_schema: Schema = None,
        strict: bool | None = None,
        provider_options: Mapping[str, Any] | None = None,
        input_examples: Sequence[Any] = (),
        transform: Mapping[str, Mapping[str, PayloadTransform]] | None = None,
        on_input_start: InputObserver | None = None,
        on_input_delta: InputObserver | None = None,
        on_input_available: InputObserver | None = None,
        on_output: Callable[[Any], Any] | None = None,
    ) -> None:
        if not id:
            raise ConfigError("A tool needs an id.")
        self.id = id
        self.description = description
        self.require_approval: RequireApproval = require_approval
        self.idempotent = idempotent
        self.background = policy_from(background, what=f"background of tool {id!r}")
        self.can_suspend = suspend_schema is not None or resume_schema is not None
        self._input = ValueSchema.of(input_schema)
        self._resume = ValueSchema.of(resume_schema)
        self.to_model_output = to_model_output
        self.title = title
        self.strict = strict
        self.provider_options = provider_options
        self.input_examples = tuple(input_examples)
        self.transform = _checked_transform(transform, id)
        self.on_input_start = on_input_start
        self.on_input_delta = on_input_delta
        self.on_input_available = on_input_available
        self.on_output = on_output
        self._output = ValueSchema.of(output_schema)
        self._suspend = ValueSchema.of(suspend_schema)
        self._context = ValueSchema.of(request_context_schema)
        self._execute = execute

    @property
    def execute(self) -> Execute | None:
        """Runs the tool; None for a client tool."""
        return self._execute

    def input_json_schema(self) -> dict[str, Any]:
        """JSON schema of the arguments."""
        return self._input.json_schema if self._input is not None else {"type": "object"}

    def resume_json_schema(self) -> dict[str, Any] | None:
        """JSON schema of resume data; None without one."""
        return self._resume.json_schema if self._resume is not None else None

    def parse_input(self, value: Any) -> Any:
        """
        The arguments as ``execute`` gets them (lenient: streaming.md 6.3).

        Raises:
            ToolInputError: They don't fit.
        """
        given = {} if value is None else value
        return given if self._input is None else self._input.parse(given, self.id, "input")

    def parse_resume(self, value: Any) -> Any:
        """
        Resume data as the tool gets it.

        Raises:
            ToolInputError: It doesn't fit.
        """
        return value if self._resume is None else self._resume.parse(value, self.id, "resume data")

    def parse_output(self, value: Any) -> Any:
        """
        The result as it is passed on: a value of the schema's type, if there is one.

        Raises:
            ToolInputError: It doesn't fit.
        """
        return value if self._output is None else self._output.parse(value, self.id, "a result")

    def check_suspend(self, payload: Any) -> None:
        """
        Refuse to wait with a payload that nobody expects.

        Raises:
            ToolInputError: It doesn't fit.
        """
        if self._suspend is not None:
            self._suspend.parse(payload, self.id, "a suspend payload")

    def check_context(self, context: Mapping[str, Any]) -> None:
        """
        Refuse to run in a request context that lacks something.

        Raises:
            ToolInputError: It doesn't fit.
        """
        if self._context is not None:
            self._context.parse(dict(context), self.id, "a request context")


def _checked_transform(
    transform: Mapping[str, Mapping[str, PayloadTransform]] | None, tool_id: str
) -> Mapping[str, Mapping[str, PayloadTransform]]:
    for target, phases in (transform or {}).items():
        if (
            target not in get_args(PayloadTarget)
            or not isinstance(phases, Mapping)
            or not set(phases) <= set(get_args(PayloadPhase))
            or not all(map(callable, phases.values()))
        ):
            raise ConfigError(
                f"transform of tool {tool_id!r} is a mapping of "
                f"{', '.join(get_args(PayloadTarget))} to functions by phase: "
                f"{', '.join(get_args(PayloadPhase))}."
            )
    return transform or {}


class ValueSchema:
    """A type and its JSON schema."""

    def __init__(self, adapter: TypeAdapter[Any] | None, json_schema: dict[str, Any]) -> None:
        self._adapter = adapter
        self.json_schema = json_schema

    @classmethod
    def of(cls, schema: Schema) -> ValueSchema | None:
        """That of a pydantic model, of any type, or of a JSON schema; None for none."""
        if schema is None:
            return None
        if isinstance(schema, Mapping):
            return cls(None, dict(schema))
        adapter: TypeAdapter[Any] = TypeAdapter(schema)
        return cls(adapter, {"$schema": _DRAFT, **adapter.json_schema()})

    def parse(self, value: Any, tool_id: str, what: str) -> Any:
        """
        The value as the type makes it.

        Raises:
            ToolInputError: It doesn't fit.
        """
        if self._adapter is None:
            _check_plain(value, self.json_schema, tool_id, what)
            return sanitize_copy(value)
        try:
            return self._adapter.validate_python(value)
        except ValidationError as first:
            repaired = _repaired(value, self.json_schema)
            if repaired != value:
                try:
                    return self._adapter.validate_python(repaired)
                except ValidationError:
                    pass
            raise _input_error(first, tool_id, what) from first


def _check_plain(value: Any, schema: Mapping[str, Any], tool_id: str, what: str) -> None:
    """
    Check a value against a JSON schema.

    Raises:
        ToolInputError: It doesn't fit.
    """
    if problems := schema_problems(value, schema):
        text = "; ".join(f"{name}: {text}" for name, text in problems.items())
        raise ToolInputError(
            f"Tool {tool_id!r} got {what} that don't fit: {text}.",
            details={"tool": tool_id, "fields": problems},
        )


def _repaired(value: Any, schema: Mapping[str, Any]) -> Any:
    """The usual slips of models: null for optional members, members that are JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    if not isinstance(value, Mapping):
        return value
    required = set(schema.get("required") or ())
    repaired: dict[str, Any] = {}
    for name, member in value.items():
        if member is not None or name in required:
            repaired[name] = _unquoted(member)
    return repaired


def _unquoted(member: Any) -> Any:
    if not isinstance(member, str) or member[:1] not in ("{", "["):
        return member
    try:
        return json.loads(member)
    except ValueError:
        return member


def _input_error(error: ValidationError, tool_id: str, what: str) -> ToolInputError:
    fields = {
        ".".join(str(step) for step in problem["loc"]) or "root": problem["msg"]
        for problem in error.errors(include_url=False)
    }
    text = "; ".join(f"{name}: {message}" for name, message in fields.items())
    return ToolInputError(
        f"Tool {tool_id!r} got {what} that don't fit: {text}.",
        details={"tool": tool_id, "fields": fields},
    )


class ToolOptions(TypedDict, total=False):
    """What ``@tool`` takes: the arguments of ``FunctionTool``, where they mean the same."""

    id: str | None
    description: str | None
    require_approval: RequireApproval
    suspend_schema: Schema
    resume_schema: Schema
    idempotent: bool
    background: BackgroundPolicy | Mapping[str, Any] | bool | None
    to_model_output: Callable[[Any], Any] | None
    title: str | None
    output_schema: Schema
    request_context_schema: Schema
    strict: bool | None
    provider_options: Mapping[str, Any] | None
    input_examples: Sequence[Any]
    transform: Mapping[str, Mapping[str, PayloadTransform]] | None
    on_input_start: InputObserver | None
    on_input_delta: InputObserver | None
    on_input_available: InputObserver | None
    on_output: Callable[[Any], Any] | None


@overload
def tool(function: Function) -> FunctionTool: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Function], FunctionTool]: ...


def tool(
    function: Function | None = None, **options: Unpack[ToolOptions]
) -> FunctionTool | Callable[[Function], FunctionTool]:
    """
    Make a tool of a function; its parameters become the arguments that the model gives.

    A parameter annotated ``ToolContext`` gets the context instead. Functions that aren't
    coroutines run in a worker thread, so that they may block.

    ``@tool`` and ``@tool(require_approval=True)`` both work; the description is the
    function's docstring.
    """
    tool_id, description = options.pop("id", None), options.pop("description", None)

    def make(wrapped: Function) -> FunctionTool:
        model, context_name = _model_of(wrapped)
        given: dict[str, Any] = dict(options)
        return FunctionTool(
            id=tool_id or wrapped.__name__,
            description=description or inspect.getdoc(wrapped) or "",
            input_schema=model,
            execute=_execute_of(wrapped, context_name),
            **given,
        )

    return make if function is None else make(function)


def _model_of(function: Callable[..., Any]) -> tuple[type[BaseModel], str | None]:
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    context_name: str | None = None
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigError(f"Tool {function.__name__!r} can't take *args or **kwargs.")
        if hints.get(name) is ToolContext:
            context_name = name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (hints.get(name, Any), default)
    model = create_model(
        f"{function.__name__}_input", __config__=ConfigDict(extra="forbid"), **fields
    )
    return model, context_name


def _execute_of(function: Callable[..., Any], context_name: str | None) -> Execute:
    is_async = inspect.iscoroutinefunction(function)

    async def execute(args: Any, context: ToolContext) -> Any:
        given = {name: getattr(args, name) for name in type(args).model_fields}
        if context_name is not None:
            given[context_name] = context
        if is_async:
            return await function(**given)
        return await asyncio.to_thread(function, **given)

    return execute


def client_tools(given: Sequence[Tool] | Mapping[str, Any]) -> dict[str, Tool]:
    """
    Tools that somebody else runs: whatever they are, they have no body here.

    Raises:
        ConfigError: One is neither a tool nor a description of one.
    """
    described = isinstance(given, Mapping)
    items = given.items() if isinstance(given, Mapping) else tools_by_name(given).items()
    made: dict[str, Tool] = {}
    for name, item in items:
        if described and isinstance(item, Mapping):
            schema = item.get("input_schema", item.get("inputSchema", item.get("parameters")))
            description = str(item.get("description") or "")
            made[name] = FunctionTool(id=name, description=description, input_schema=schema)
            continue
        [known] = tools_by_name({name: item}).values()
        made[name] = FunctionTool(
            id=known.id, description=known.description, input_schema=known.input_json_schema()
        )
    return made


def tools_by_name(tools: Sequence[Tool] | Mapping[str, Tool]) -> dict[str, Tool]:
    """
    Tools by the name that the model sees.

    Raises:
        ConfigError: Two have one name, or one isn't a tool.
    """
    if not isinstance(tools, Sequence | Mapping) or isinstance(tools, str):
        raise ConfigError(f"Tools are given as a list or a mapping, not as {shown(tools)}.")
    for item in tools.values() if isinstance(tools, Mapping) else tools:
        if not isinstance(getattr(item, "id", None), str) or not hasattr(item, "parse_input"):
            raise ConfigError(
                f"{shown(item)} is no tool.",
                hint="Put @tool before a function, or make a FunctionTool.",
            )
    if isinstance(tools, Mapping):
        return dict(tools)
    named: dict[str, Tool] = {}
    for item in tools:
        if item.id in named:
            raise ConfigError(f"Two tools are called {item.id!r}.")
        named[item.id] = item
    return named
