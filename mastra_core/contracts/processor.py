"""Processors: who may look at or change what goes into and comes out of a run.

The hooks are those of processors.md 2; a processor implements any subset. Each takes one
argument object and may be sync or async.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ("HOOKS", "Processor")

#: Hook methods in the order of processors.md 2.
HOOKS: tuple[str, ...] = (
    "process_input",
    "process_input_step",
    "compute_state_signal",
    "process_llm_request",
    "process_llm_response",
    "process_output_stream",
    "process_output_step",
    "process_tool_result",
    "process_output_result",
    "process_api_error",
)


@runtime_checkable
class Processor(Protocol):
    """An object with an ``id`` and any of the methods in :data:`HOOKS`.

    Instances are shared by concurrent runs: keep nothing about a run on ``self``, use
    ``args.state``.
    """

    id: str
