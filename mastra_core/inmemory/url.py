"""The URL of everything in memory: ``memory:`` or ``memory:name``."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

__all__ = ("MemoryUrl",)


def _check(url: str) -> str:
    if "?" in url:
        raise ValueError("'memory:name' takes no parameters but mastra_<option>")
    return url


MemoryUrl = Annotated[str, AfterValidator(_check)]
"""A name, without parameters that would do nothing."""
