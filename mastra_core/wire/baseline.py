"""Which version of the shared format this package reads and writes (design D20)."""

from __future__ import annotations

from typing import Final

__all__ = ("WIRE",)

#: Version of the TypeScript system whose tables, keys and JSON are ours, too.
WIRE: Final = "1.71"
