"""The suites: what every backend and the runtime on top of it must do."""

from __future__ import annotations

__all__ = ()
