"""Things that are open while somebody is inside one of their ``async with`` blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ("OpenInBlocks",)


class OpenInBlocks(ABC):
    """Opened by the first ``async with`` block and closed by the last one; blocks may nest."""

    #: How many blocks are inside.
    _entered = 0

    @abstractmethod
    async def init(self) -> None:
        """Open it, unless it is."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close it, if it is open."""

    async def __aenter__(self) -> Self:
        await self.init()
        self._entered += 1
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._entered = max(0, self._entered - 1)
        if not self._entered:
            await self.aclose()
