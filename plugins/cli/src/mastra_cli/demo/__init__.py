"""The demo: real GitHub events, an inbox, an agent, an approval, a killed process."""

from __future__ import annotations

__all__ = ()
