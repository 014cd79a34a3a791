"""One line of ``doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ("Check",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the diagnosis."""

    name: str
    status: Literal["ok", "warning", "failed"]
    summary: str
    #: What mends it; None if nothing has to be mended.
    fix: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """Plain JSON values."""
        wire: dict[str, Any] = {"name": self.name, "status": self.status, "summary": self.summary}
        return wire if self.fix is None else {**wire, "fix": self.fix}
