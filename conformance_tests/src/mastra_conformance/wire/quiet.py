"""Wait until nothing goes on any more."""

from __future__ import annotations

import asyncio
from typing import Final

__all__ = ("Quiet",)

#: Seconds after which something must have come to rest.
_DEADLINE: Final = 60.0
#: Tasks that look at storage now and then, as long as the application is open.
_LOOKERS: Final = frozenset({"parked-runs"})


class Quiet:
    """
    Knows the tasks that were there at the beginning, and waits for the end of all others.

    Tasks that only listen are made known with :meth:`ignore`.
    """

    def __init__(self) -> None:
        self._ignored = set(asyncio.all_tasks())

    def ignore(self, task: asyncio.Task[None]) -> None:
        """This one goes on for ever."""
        self._ignored.add(task)

    async def wait(self) -> None:
        """
        Let everything that was started come to its end.

        Raises:
            TimeoutError: Something goes on and on; the message names it.
        """
        try:
            async with asyncio.timeout(_DEADLINE):
                while working := self._working():
                    await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
                    # What waited for that task gets its turn, and may start others.
                    await asyncio.sleep(0)
        except TimeoutError:
            names = sorted(task.get_name() for task in self._working())
            raise TimeoutError(f"Still at work: {', '.join(names)}.") from None

    def _working(self) -> set[asyncio.Task[object]]:
        return {
            task
            for task in asyncio.all_tasks()
            if task not in self._ignored and task.get_name() not in _LOOKERS
        }
