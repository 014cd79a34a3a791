"""The commands of ``mastra-conformance``, one module each."""

from __future__ import annotations

__all__ = ()
