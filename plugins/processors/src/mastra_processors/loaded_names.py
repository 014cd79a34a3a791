"""What was loaded for which thread, for as long as somebody uses it."""

from __future__ import annotations

from collections.abc import Iterable

from mastra_core.base.clock import Clock
from mastra_core.processors import ProcessorArgs

__all__ = ("LoadedNames",)


class LoadedNames:
    """
    Names by thread, in the order in which they were loaded; forgotten when nobody asks.

    Lives in this process. A run without a thread has its names for itself.

    Args:
        clock: Says when time is over.
        ttl_ms: How long the names of a thread stay after the last look; 0 for ever.
    """

    def __init__(self, clock: Clock, *, ttl_ms: int) -> None:
        self._clock = clock
        self._ttl = ttl_ms / 1000
        self._threads: dict[tuple[str | None, str], tuple[list[str], float]] = {}

    def __len__(self) -> int:
        return len(self._threads)

    def of(self, args: ProcessorArgs) -> list[str]:
        """The names of this run's thread."""
        if args.thread_id is None:
            own: list[str] = args.state.setdefault("loaded", [])
            return list(own)
        self._forget()
        key = (args.resource_id, args.thread_id)
        names = self._threads[key][0] if key in self._threads else []
        if names:
            self._threads[key] = (names, self._clock.monotonic())
        return list(names)

    def add(self, args: ProcessorArgs, names: Iterable[str]) -> None:
        """Load further ones."""
        known = self.of(args)
        known += [name for name in dict.fromkeys(names) if name not in known]
        if args.thread_id is None:
            args.state["loaded"] = known
        else:
            key = (args.resource_id, args.thread_id)
            self._threads[key] = (known, self._clock.monotonic())

    def clear(self, thread_id: str | None = None) -> None:
        """Forget the names of one thread, or of all."""
        for key in list(self._threads):
            if thread_id in (None, key[1]):
                del self._threads[key]

    def _forget(self) -> None:
        if self._ttl <= 0:
            return
        oldest = self._clock.monotonic() - self._ttl
        for key, (_, seen_at) in list(self._threads.items()):
            if seen_at < oldest:
                del self._threads[key]
