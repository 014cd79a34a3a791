"""One run of an agent: model requests and the tool calls they make."""

from __future__ import annotations

__all__ = ()
