"""Does the loop go round again? (streaming.md 2.3)"""

from __future__ import annotations

__all__ = ("DEFAULT_MAX_STEPS", "may_run_tools", "step_limit", "wants_another_step")

#: Model requests of a run for which neither ``max_steps`` nor ``stop_when`` is given.
DEFAULT_MAX_STEPS = 5

_FINAL = ("stop", "error", "length", "content-filter")
_NO_TOOLS = ("error", "length", "content-filter")


def wants_another_step(
    reason: str, *, pending_calls: int, open_client_calls: int, has_output: bool
) -> bool:
    """
    Apply the table, without ``max_steps`` and ``stop_when``.

    Args:
        reason: Finish reason of the step.
        pending_calls: Tool calls without a provider-executed result.
        open_client_calls: Those of them that have no implementation here.
        has_output: Whether the step produced anything at all.
    """
    if open_client_calls:
        return False
    if pending_calls and reason not in _NO_TOOLS:
        return True
    if reason in _FINAL:
        return False
    return has_output


def may_run_tools(reason: str) -> bool:
    """A step that ended in trouble doesn't execute what it asked for."""
    return reason not in _NO_TOOLS


def step_limit(max_steps: int | None, *, has_conditions: bool) -> int | None:
    """How many model requests a run may make; None if only its conditions say."""
    return DEFAULT_MAX_STEPS if max_steps is None and not has_conditions else max_steps
