"""A small server and its adapter: in-memory semantics behind TCP, with a log that survives a kill."""

from __future__ import annotations

__all__ = ()
