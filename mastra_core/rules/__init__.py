"""Rules that every store obeys, as pure functions: what to refuse, match, merge and move.

Nothing here waits, stores or knows a backend. An adapter reads a row, applies a rule inside
its transaction, and writes the result. A module is imported by its name
(``from mastra_core.rules import notifications``).
"""

from __future__ import annotations

__all__ = ()
