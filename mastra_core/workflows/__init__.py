"""Steps, snapshots, suspension and resume of runs."""

from __future__ import annotations

__all__ = ()
