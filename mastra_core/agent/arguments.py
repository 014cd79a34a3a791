"""What calls on an agent may be given; everything else is refused before anything is done.

Types find most of this while a program is written. What comes from outside (ids and options in
a request, events of a webhook) has no types then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias, get_args

from mastra_core.agent.memory import MemoryOptions
from mastra_core.base.naming import is_id
from mastra_core.contracts.completion import TaskCheck
from mastra_core.contracts.delegation import Delegation
from mastra_core.contracts.tool_hooks import ToolHooks
from mastra_core.errors import ConfigError, RunArgumentError, shown
from mastra_core.streaming.broadcast import MIN_BUFFERED_CHUNKS
from mastra_core.wire.signals import SignalType

__all__ = (
    "OPTION_KINDS",
    "Kind",
    "check_cursor",
    "check_decision",
    "check_given_ids",
    "check_ids",
    "check_kind",
    "check_models",
    "check_timeout",
)

#: No wait is longer, in milliseconds: a hundred years.
_LONGEST_MS: Final = 100 * 365 * 86_400_000
#: What a value must be, in words, and whether it is.
Kind: TypeAlias = tuple[str, Callable[[Any], bool]]


def check_ids(**ids: object) -> None:
    """
    Refuse what can't be the id of anything.

    Raises:
        RunArgumentError: One is empty, or no text.
    """
    for name, value in ids.items():
        check_kind(name, value, _ID, id="AGENT_RUN_INVALID_ARGUMENT")


def check_given_ids(**ids: object) -> None:
    """
    As ``check_ids``, but None stands for "not given".

    Raises:
        RunArgumentError: One is empty, or no text.
    """
    check_ids(**{name: value for name, value in ids.items() if value is not None})


def check_kind(name: str, value: object, kind: Kind, *, id: str) -> None:
    """
    Refuse a value of another kind.

    Raises:
        RunArgumentError: With this id.
    """
    words, fits = kind
    if not fits(value):
        raise RunArgumentError(
            f"{name} must be {words}, not {shown(value)}.", id=id, details={"argument": name}
        )


def check_models(choice: object) -> None:
    """
    Refuse what is no model, no name of one, and no list of such.

    Raises:
        ConfigError: It can't be asked anything.
    """
    for model in _items(choice):
        if not isinstance(model, str) and not callable(getattr(model, "stream", None)):
            raise ConfigError(
                f"A model is an object with a method 'stream', or a name, not {shown(model)}."
            )


def check_decision(approved: object, context: object) -> None:
    """
    Refuse what is no decision about a call.

    Raises:
        RunArgumentError: ``approved`` is no boolean, or the context no mapping.
    """
    check_kind("approved", approved, _BOOL, id="AGENT_RUN_INVALID_ARGUMENT")
    if context is not None:
        check_kind("decline_context", context, _MAPPING, id="AGENT_RUN_INVALID_ARGUMENT")


def check_timeout(timeout_ms: object) -> None:
    """
    Refuse what is no time to wait.

    Raises:
        RunArgumentError: It isn't a positive integer of milliseconds.
    """
    check_kind("timeout_ms", timeout_ms, _COUNT, id="AGENT_INVALID_OPTION")


def check_cursor(after: object) -> None:
    """
    Refuse what is no place in a list of runs.

    Raises:
        RunArgumentError: It isn't a pair of an aware time and a run id.
    """
    if after is not None:
        check_kind("after", after, _CURSOR, id="AGENT_RUN_INVALID_ARGUMENT")


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_cursor(value: Any) -> bool:
    if not isinstance(value, tuple | list) or len(value) != 2:  # noqa: PLR2004 - a pair
        return False
    created_at, run_id = value
    return isinstance(created_at, datetime) and created_at.tzinfo is not None and is_id(run_id)


def _is_model_settings(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    timeout = value.get("timeout")
    return timeout is None or (
        isinstance(timeout, Mapping)
        and all(limit is None or _is_duration(limit) for limit in timeout.values())
    )


def _is_duration(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 < value <= _LONGEST_MS  # type: ignore[operator] # a number by then


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _items(value: Any) -> Sequence[Any]:
    return value if _is_list(value) else (value,)


def _are_texts(value: Any) -> bool:
    return _is_list(value) and all(isinstance(item, str) for item in value)


def _are_callable(value: Any) -> bool:
    return all(map(callable, _items(value)))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_tool_choice(value: Any) -> bool:
    if isinstance(value, Mapping):
        return value.get("type") == "tool" and is_id(value.get("toolName"))
    return isinstance(value, str) and value in ("auto", "none", "required")


def _is_until_idle(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return isinstance(value, bool)
    limit, on = value.get("max_idle_ms", 1), value.get("continue_on", "all")
    return set(value) <= {"max_idle_ms", "continue_on"} and _is_count(limit) and on in _CONTINUE_ON


def _is_concurrency(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return _is_count(value)
    return (
        set(value) <= {"limit", "strategy"}
        and _is_count(value.get("limit", 1))
        and value.get("strategy", "called") in ("available", "called")
    )


_CONTINUE_ON: Final = ("all", "each")
_ID: Final[Kind] = ("a text that is not empty, without NUL and half characters", is_id)
_CURSOR: Final[Kind] = ("a pair of a datetime with a time zone and a run id", _is_cursor)
_MAPPING: Final[Kind] = ("a mapping", _is_mapping)
_TEXT: Final[Kind] = ("a text", _is_text)
_BOOL: Final[Kind] = ("a boolean", lambda value: isinstance(value, bool))
_COUNT: Final[Kind] = ("a positive integer", _is_count)
_CALLABLE: Final[Kind] = ("callable", callable)

#: Of the options of a run whose kind can be seen by the value alone.
OPTION_KINDS: Final[Mapping[str, Kind]] = {
    "run_id": _ID,
    "thread_id": _ID,
    "resource_id": _ID,
    "thread_title": _TEXT,
    "thread_metadata": _MAPPING,
    "read_only": _BOOL,
    "memory_options": ("MemoryOptions", lambda value: isinstance(value, MemoryOptions)),
    "instructions": _TEXT,
    "system": ("a text or a list of texts", lambda value: _is_text(value) or _are_texts(value)),
    "model_settings": (
        "a mapping, whose timeouts are mappings of milliseconds above 0",
        _is_model_settings,
    ),
    "provider_options": _MAPPING,
    "max_steps": _COUNT,
    "max_processor_retries": (
        "an integer that isn't negative",
        lambda value: (value == 0 and not isinstance(value, bool | float)) or _is_count(value),
    ),
    "max_interruptions": (
        "an integer that isn't negative",
        lambda value: (value == 0 and not isinstance(value, bool | float)) or _is_count(value),
    ),
    "interruption_debounce_ms": (
        "an integer that isn't negative",
        lambda value: (value == 0 and not isinstance(value, bool | float)) or _is_count(value),
    ),
    "guard_signals": (
        f"a boolean or a list of types of signals: {', '.join(get_args(SignalType))}",
        lambda value: (
            isinstance(value, bool)
            or (_are_texts(value) and set(value) <= set(get_args(SignalType)))
        ),
    ),
    "max_buffered_chunks": (
        f"an integer of at least {MIN_BUFFERED_CHUNKS}",
        lambda value: _is_count(value) and value >= MIN_BUFFERED_CHUNKS,
    ),
    "prepare_step": _CALLABLE,
    "stop_when": ("callable, or a list of callables", _are_callable),
    "active_tools": ("a list of names", _are_texts),
    "tool_choice": (
        "'auto', 'none', 'required' or {'type': 'tool', 'toolName': ...}",
        _is_tool_choice,
    ),
    "require_tool_approval": (
        "a boolean or callable",
        lambda value: isinstance(value, bool) or callable(value),
    ),
    "tool_call_concurrency": (
        "a positive integer, or {'limit': ..., 'strategy': 'available' or 'called'}",
        _is_concurrency,
    ),
    "hooks": ("ToolHooks", lambda value: isinstance(value, ToolHooks)),
    "transform": _CALLABLE,
    "is_task_complete": ("a TaskCheck", lambda value: isinstance(value, TaskCheck)),
    "save_per_step": _BOOL,
    "auto_resume_suspended_tools": _BOOL,
    "include_raw_chunks": _BOOL,
    "request_context": _MAPPING,
    "hide_signals": (
        "a boolean or a list of names",
        lambda value: isinstance(value, bool) or _are_texts(value),
    ),
    "until_idle": (
        "a boolean, or {'max_idle_ms': ..., 'continue_on': 'all' or 'each'}",
        _is_until_idle,
    ),
    "disable_background_tasks": _BOOL,
    "delegation": ("a Delegation", lambda value: isinstance(value, Delegation)),
    "abort_signal": ("an asyncio.Event", lambda value: callable(getattr(value, "wait", None))),
    "on_chunk": _CALLABLE,
    "on_step_finish": _CALLABLE,
    "on_iteration_complete": _CALLABLE,
    "on_finish": _CALLABLE,
    "on_error": _CALLABLE,
    "on_abort": _CALLABLE,
}
