"""Who may look at, or change, what goes into a run and comes out of it."""

from __future__ import annotations

from mastra_core.processors.arguments import ProcessorArgs, StepPatch
from mastra_core.processors.runner import ProcessorRunner

__all__ = ("ProcessorArgs", "ProcessorRunner", "StepPatch")
