"""Second processes for tests: start, meet at named points, stop, kill."""

from __future__ import annotations

from mastra_conformance.processes.context import WorkerContext
from mastra_conformance.processes.parent import (
    Processes,
    Worker,
    WorkerDiedError,
    WorkerFailedError,
)

__all__ = ("Processes", "Worker", "WorkerContext", "WorkerDiedError", "WorkerFailedError")
