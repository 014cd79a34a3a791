"""A function of the caller that prepares each step (processors.md 5.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mastra_core.base.tasks import call_maybe_async
from mastra_core.processors.arguments import ProcessorArgs

__all__ = ("PrepareStep",)


class PrepareStep:
    """
    Stands behind all input processors, so that it has the last word.

    Args:
        function: Called with the arguments of ``process_input_step``; what it returns counts as
            what that hook returns.
    """

    id = "prepare-step"

    def __init__(self, function: Callable[[ProcessorArgs], Any]) -> None:
        self._function = function

    async def process_input_step(self, args: ProcessorArgs) -> Any:
        """Hook 2."""
        return await call_maybe_async(self._function, args)
