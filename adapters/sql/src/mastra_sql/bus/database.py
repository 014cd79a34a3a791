"""An open database, as a bus or a lease provider uses it."""

from __future__ import annotations

from typing import Protocol

from mastra_sql.bus.hints import Doorbell
from mastra_sql.executor import Executor

__all__ = ("OpenDatabase",)


class OpenDatabase(Protocol):
    """What runs statements, and what carries hints that there is news."""

    @property
    def client(self) -> Executor:
        """Runs statements."""
        ...

    @property
    def bell(self) -> Doorbell:
        """Carries hints."""
        ...
