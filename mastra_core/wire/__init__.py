"""What things look like outside this process: rows, events, HTTP bodies.

One model per thing that is stored or sent. No behaviour lives here; a module is imported by
its name (``from mastra_core.wire.threads import Thread``).
"""

from __future__ import annotations

__all__ = ()
