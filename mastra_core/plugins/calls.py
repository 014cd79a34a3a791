"""
How implementations of hooks are called, and what the failure of one means (design 4.2).

Each implementation is called alone. ``Exception`` and ``SystemExit`` are contained;
``KeyboardInterrupt`` and cancellation pass.

========  =====================================================================
collect   consumed completely; a failure puts the plugin aside
gather    awaited together, each with a deadline
decide    the first answer that isn't None; a failing one is skipped and logged
permit    all must answer True or None; failing or late is no
observe   answers are ignored; off after some consecutive failures
========  =====================================================================
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import warnings
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from mastra_core.errors import PluginWarning
from mastra_core.plugins.records import Implementation, first_line

__all__ = ("CONTAINED", "HookCalls", "collect_items")

logger = logging.getLogger(__name__)

#: What a plugin may raise without harm to others.
CONTAINED: tuple[type[BaseException], ...] = (Exception, SystemExit)


def collect_items(
    implementation: Implementation,
    arguments: dict[str, Any],
    item_type: type,
) -> tuple[object, ...]:
    """
    Everything that a collecting hook yields; None counts as nothing.

    Schemes are noted while it yields, so that a plugin which fails later is still known
    to be the one that they belong to.

    Raises:
        TypeError: It yielded something else than ``item_type``.
    """
    result = implementation(arguments)
    items: list[object] = []
    for item in () if result is None else result:
        if not isinstance(item, item_type):
            raise TypeError(
                f"{implementation.hook} yielded {type(item).__name__}, not {item_type.__name__}"
            )
        implementation.record.schemes.update(getattr(item, "schemes", ()))
        items.append(item)
    return tuple(items)


class HookCalls:
    """Calls hooks of one manager, and counts the failures of observers."""

    def __init__(self, *, trace: bool, observer_failures: int) -> None:
        self._trace = trace
        self._observer_failures = observer_failures
        #: Consecutive failures; an entry that reached the limit is off.
        self._failures: dict[tuple[int, str, str], int] = {}
        #: Deciding implementations whose failure was already told.
        self._skipped: set[tuple[int, str, str]] = set()

    def note(self, implementation: Implementation) -> None:
        """Log the call if tracing is on."""
        if self._trace:
            logger.info(
                "hook called",
                extra={"hook": implementation.hook, "plugin": implementation.record.name},
            )

    def decide(self, implementations: Sequence[Implementation], arguments: dict[str, Any]) -> Any:
        """The first answer that isn't None; None if nobody has one."""
        for implementation in implementations:
            self.note(implementation)
            try:
                answer = implementation(arguments)
            except CONTAINED as error:
                self._log_skipped(implementation, error)
                continue
            if answer is not None:
                return answer
        return None

    def observe(self, implementations: Sequence[Implementation], arguments: dict[str, Any]) -> None:
        """Tell everybody; nobody can do harm."""
        for implementation in implementations:
            if self.is_off(implementation):
                continue
            self.note(implementation)
            try:
                implementation(arguments)
            except CONTAINED as error:
                self._count_failure(implementation, error)
            else:
                self._failures.pop(implementation.key, None)

    def _log_skipped(self, implementation: Implementation, error: BaseException) -> None:
        level = logging.DEBUG if implementation.key in self._skipped else logging.WARNING
        self._skipped.add(implementation.key)
        logger.log(
            level, "deciding hook failed and was skipped", extra=_facts(implementation, error)
        )
        logger.debug("traceback of the failed hook", exc_info=error)

    def is_off(self, implementation: Implementation) -> bool:
        """True if this observer failed too often to be called again."""
        return self._failures.get(implementation.key, 0) >= self._observer_failures

    def _count_failure(self, implementation: Implementation, error: BaseException) -> None:
        count = self._failures.get(implementation.key, 0) + 1
        self._failures[implementation.key] = count
        logger.debug(
            "observer failed",
            extra={"hook": implementation.hook, "plugin": implementation.record.name},
            exc_info=error,
        )
        if count == self._observer_failures:
            warnings.warn(
                f"Plugin {implementation.record.name!r} failed {count} times in a row in "
                f"{implementation.hook} and is not told any more: {first_line(error)}",
                PluginWarning,
                stacklevel=4,
            )

    async def gather(
        self,
        implementations: Sequence[Implementation],
        arguments: dict[str, Any],
        *,
        deadline: float,
    ) -> dict[Implementation, BaseException | None]:
        """Run all together; what each of them raised, or None."""
        # A hook that ends as if it were cancelled leaves its entry as it is: not done.
        outcome: dict[Implementation, BaseException | None] = {
            implementation: asyncio.CancelledError() for implementation in implementations
        }

        async def run(implementation: Implementation) -> None:
            self.note(implementation)
            try:
                async with asyncio.timeout(deadline):
                    answer = implementation(arguments)
                    if inspect.isawaitable(answer):
                        await answer
            except TimeoutError as error:
                outcome[implementation] = error if str(error) else _late(deadline, error)
            except CONTAINED as error:
                outcome[implementation] = error
            else:
                outcome[implementation] = None

        async with asyncio.TaskGroup() as group:
            for item in implementations:
                group.create_task(run(item), name=f"{item.hook}:{item.record.name}")
        return outcome

    async def permit(
        self,
        implementations: Sequence[Implementation],
        arguments: dict[str, Any],
        *,
        deadline: float,
    ) -> bool:
        """True only if every implementation answered True or None in time."""
        # A hook that ends as if it were cancelled gives no answer, so it refuses.
        permitted = dict.fromkeys(implementations, False)

        async def ask(implementation: Implementation) -> None:
            self.note(implementation)
            try:
                async with asyncio.timeout(deadline):
                    answer = implementation(arguments)
                    if inspect.isawaitable(answer):
                        answer = await answer
            except CONTAINED as error:
                _log_refused(implementation, error)
            else:
                permitted[implementation] = answer is None or answer is True

        async with asyncio.TaskGroup() as group:
            for item in implementations:
                group.create_task(ask(item), name=f"{item.hook}:{item.record.name}")
        return all(permitted.values())

    @asynccontextmanager
    async def stand_around(
        self, implementations: Sequence[Implementation], arguments: dict[str, Any]
    ) -> AsyncIterator[None]:
        """Enter what the implementations return, leave it in reverse; none can do harm."""
        entered: list[tuple[Implementation, _Around]] = []
        for implementation in implementations:
            if self.is_off(implementation):
                continue
            self.note(implementation)
            try:
                around = _around(implementation, implementation(arguments))
                await around.enter()
            except CONTAINED as error:
                self._count_failure(implementation, error)
            else:
                entered.append((implementation, around))
        error_inside: BaseException | None = None
        try:
            yield
        except BaseException as error:
            error_inside = error
            raise
        finally:
            for implementation, around in reversed(entered):
                try:
                    await around.leave(error_inside)
                except CONTAINED as error:
                    if error is not error_inside:
                        self._count_failure(implementation, error)
                else:
                    self._failures.pop(implementation.key, None)


class _Around:
    """Nothing around a call."""

    async def enter(self) -> None:
        """Before the call."""

    async def leave(self, error: BaseException | None) -> None:
        """After the call; ``error`` is what it raised."""


class _ManagerAround(_Around):
    def __init__(self, manager: AbstractAsyncContextManager[Any]) -> None:
        self._manager = manager

    async def enter(self) -> None:
        await self._manager.__aenter__()

    async def leave(self, error: BaseException | None) -> None:
        kind = type(error) if error is not None else None
        await self._manager.__aexit__(kind, error, error.__traceback__ if error else None)


class _GeneratorAround(_Around):
    def __init__(self, generator: Generator[Any, Any, Any]) -> None:
        self._generator = generator

    async def enter(self) -> None:
        next(self._generator)

    async def leave(self, error: BaseException | None) -> None:
        try:
            if error is None:
                next(self._generator)
            else:
                self._generator.throw(error)
        except StopIteration:
            return
        self._generator.close()
        raise RuntimeError("the wrapper yielded more than once")


def _around(implementation: Implementation, result: object) -> _Around:
    if result is None:
        return _Around()
    if implementation.is_wrapper and isinstance(result, Generator):
        return _GeneratorAround(result)
    if isinstance(result, AbstractAsyncContextManager):
        return _ManagerAround(result)
    raise TypeError(
        f"{implementation.hook} returned {type(result).__name__}, not an async context manager"
    )


def _late(deadline: float, error: TimeoutError) -> TimeoutError:
    late = TimeoutError(f"not done within {deadline:g} seconds")
    late.__cause__ = error
    return late


def _log_refused(implementation: Implementation, error: BaseException) -> None:
    logger.warning("authorisation hook failed, so it refused", extra=_facts(implementation, error))


def _facts(implementation: Implementation, error: BaseException) -> dict[str, str]:
    return {
        "hook": implementation.hook,
        "plugin": implementation.record.name,
        "error": first_line(error),
    }
