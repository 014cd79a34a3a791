"""Whether a run has done what it was to do (streaming.md 2.2, step 16)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = ("CheckResult", "IterationState", "TaskCheck", "Verdict")


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationState:
    """Where a run stands after a step."""

    iteration: int
    max_iterations: int | None
    text: str
    tool_calls: Sequence[Mapping[str, Any]]
    tool_results: Sequence[Mapping[str, Any]]
    #: The run ends here unless somebody wants otherwise.
    is_final: bool
    finish_reason: str
    run_id: str
    thread_id: str | None
    resource_id: str | None
    agent_id: str
    #: The transcript, as stored messages.
    messages: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What one check found."""

    passed: bool
    reason: str | None = None
    score: float | None = None


#: True, a score from 0 to 1 (1 passes), or a ``CheckResult``.
Verdict: TypeAlias = bool | float | CheckResult


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCheck:
    """
    When a run may end: it goes on, with the reasons as feedback, until the checks pass.

    Args:
        checks: Asked side by side when the run would end; one that raises hasn't passed.
        strategy: ``all`` of them have to pass, or ``any``.
        timeout_ms: Those that take longer haven't passed.
        suppress_feedback: The model isn't told why it goes on.
    """

    checks: Sequence[Callable[[IterationState], Verdict | Awaitable[Verdict]]]
    strategy: Literal["all", "any"] = "all"
    timeout_ms: int = 60_000
    suppress_feedback: bool = False
