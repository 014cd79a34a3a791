"""How a worker of a demo and its parent talk: one line each, JSON to the parent."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

__all__ = ("tell", "told")


def tell(event: str, **facts: Any) -> None:
    """One line to the parent."""
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


async def told() -> str:
    """The next line from the parent; empty when it is gone."""
    line: str = await asyncio.to_thread(sys.stdin.readline)
    return line.strip()
