"""Which calls become tasks, and how (streaming.md 8.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, get_args

from mastra_core.background.settings import BackgroundTaskSettings
from mastra_core.base.naming import to_snake
from mastra_core.contracts.background import BackgroundPolicy, Disposition, TaskPlan
from mastra_core.errors import ConfigError, shown

__all__ = (
    "AgentBackground",
    "agent_background",
    "eligible_policy",
    "instruction_for",
    "plan_for",
    "policy_from",
)

_DISPOSITIONS: Final = get_args(Disposition)
#: Sub-agents and workflows are tools under these prefixes; entries may leave them out.
_PREFIXES: Final = ("agent-", "workflow-")
_LONGEST_MS: Final = 30 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentBackground:
    """What an agent says about its tools."""

    disabled: bool = False
    tools: Literal["all"] | Mapping[str, BackgroundPolicy] = field(default_factory=dict)
    #: How long a step of this agent waits for tasks; None: what the application says.
    wait_timeout_ms: int | None = None

    def entry(self, tool_name: str) -> BackgroundPolicy | None:
        """What it says about one tool, under its name with or without the prefix."""
        if self.tools == "all":
            return BackgroundPolicy(enabled=True)
        entries = self.tools
        assert not isinstance(entries, str)
        for name in _names_of(tool_name):
            if name in entries:
                return entries[name]
        return None


def _names_of(tool_name: str) -> Sequence[str]:
    for prefix in _PREFIXES:
        if tool_name.startswith(prefix):
            return (tool_name, tool_name.removeprefix(prefix))
    return (tool_name, *(prefix + tool_name for prefix in _PREFIXES))


def policy_from(value: object, *, what: str) -> BackgroundPolicy | None:
    """
    Read what a tool or an agent's entry declares: None, True or False, or a mapping.

    Raises:
        ConfigError: It can't be that.
    """
    if value is None or isinstance(value, BackgroundPolicy):
        return value
    if isinstance(value, bool):
        return BackgroundPolicy(enabled=value)
    if not isinstance(value, Mapping):
        raise ConfigError(f"{what} is a mapping, True or False, not {shown(value)}.")
    known = [one.name for one in fields(BackgroundPolicy)]
    members: dict[str, Any] = {"enabled": True}
    for name, member in value.items():
        ours = to_snake(str(name))
        if ours not in known:
            raise ConfigError(f"{what} has no member {name!r}. Known: {', '.join(known)}.")
        members[ours] = member
    policy = BackgroundPolicy(**members)
    if policy.default_disposition not in (None, *_DISPOSITIONS):
        raise ConfigError(
            f"default_disposition is one of {', '.join(_DISPOSITIONS)}, not "
            f"{shown(policy.default_disposition)}."
        )
    for name, least in (("timeout_ms", 1), ("max_retries", 0), ("wait_timeout_ms", 1)):
        number = getattr(policy, name)
        if number is not None and _number(number, least) is None:
            raise ConfigError(f"{name} is an integer of at least {least}, not {shown(number)}.")
    return policy


def agent_background(value: object) -> AgentBackground:
    """
    Read ``Agent(background_tasks=...)``.

    Raises:
        ConfigError: A member is unknown or malformed.
    """
    if isinstance(value, AgentBackground):
        return value
    if value is None:
        return AgentBackground()
    if not isinstance(value, Mapping):
        raise ConfigError(f"background_tasks of an agent is a mapping, not {shown(value)}.")
    given = {to_snake(str(name)): member for name, member in value.items()}
    if unknown := set(given) - {"disabled", "tools", "wait_timeout_ms", "concurrency"}:
        raise ConfigError(
            f"background_tasks of an agent has no member {min(unknown)!r}. "
            "Known: disabled, tools, wait_timeout_ms."
        )
    tools = given.get("tools", {})
    if tools != "all":
        if not isinstance(tools, Mapping):
            raise ConfigError(f"tools is 'all' or a mapping by name, not {shown(tools)}.")
        tools = {
            str(name): policy_from(entry, what=f"The entry for {name!r}")
            or BackgroundPolicy(enabled=False)
            for name, entry in tools.items()
        }
    return AgentBackground(
        disabled=bool(given.get("disabled", False)),
        tools=tools,
        wait_timeout_ms=given.get("wait_timeout_ms"),
    )


def eligible_policy(
    tool_name: str, declared: BackgroundPolicy | None, agent: AgentBackground
) -> BackgroundPolicy | None:
    """
    What holds for an eligible tool, the agent's word over the tool's; None: foreground.

    Args:
        tool_name: The name that the model sees.
        declared: What the tool itself says.
        agent: What its agent says.
    """
    if agent.disabled:
        return None
    entry = agent.entry(tool_name)
    chosen = entry if entry is not None else declared
    if chosen is None or not chosen.enabled:
        return None
    below = declared or BackgroundPolicy()
    return BackgroundPolicy(
        enabled=True,
        **{
            name: _first(getattr(chosen, name), getattr(below, name))
            for name in (one.name for one in fields(BackgroundPolicy))
            if name not in ("enabled", "max_retries")
        },
        max_retries=_first(chosen.max_retries, below.max_retries),
    )


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def plan_for(
    policy: BackgroundPolicy, override: object, settings: BackgroundTaskSettings
) -> TaskPlan | None:
    """How a call of an eligible tool runs; what the model said comes first. None: foreground."""
    said: Mapping[str, Any] = override if isinstance(override, Mapping) else {}
    disposition: Any = said.get("disposition")
    if disposition not in _DISPOSITIONS:
        match said.get("enabled"):
            case True:
                disposition = "deferred"
            case False:
                disposition = "foreground"
            case _:
                disposition = policy.default_disposition or "deferred"
    if disposition == "foreground":
        return None
    return TaskPlan(
        disposition=disposition,
        timeout_ms=_first(
            _number(said.get("timeoutMs"), 1), policy.timeout_ms, settings.default_timeout_ms
        ),
        max_retries=_first(
            _number(said.get("maxRetries"), 0),
            policy.max_retries,
            settings.default_retries.max_retries,
        ),
        wait_timeout_ms=policy.wait_timeout_ms,
        policy=policy,
    )


def _number(value: object, least: int) -> int | None:
    """A number that a model may have written as 5000.0; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if least <= value <= _LONGEST_MS else None


def instruction_for(policies: Mapping[str, BackgroundPolicy]) -> str | None:
    """What the model is told about tools that may run in the background; None without any."""
    if not policies:
        return None
    listed = "\n".join(
        f"- {name} (default: {_default_word(policy)})" for name, policy in policies.items()
    )
    return (
        "Some of your tools can work in the background while you go on:\n"
        f"{listed}\n\n"
        'To choose for a single call, add an object "_background" to its arguments. Its members '
        'are all optional: "disposition", "timeoutMs", "maxRetries".\n'
        '- "disposition": "deferred" starts the work and gives you a task ID at once; the real '
        "result replaces it in the conversation when it is there.\n"
        '- "disposition": "awaited" starts the work as a task of its own, and you go on when it '
        "has ended.\n"
        '- "disposition": "foreground" runs the tool now and gives you its result.\n\n'
        "Defer what nobody waits for and what can run side by side. Use the foreground when the "
        "next thing you say depends on the result. Never invent the result of a task that still "
        "runs, and don't start the same work twice."
    )


def _default_word(policy: BackgroundPolicy) -> str:
    return "foreground" if policy.default_disposition == "foreground" else "background"
