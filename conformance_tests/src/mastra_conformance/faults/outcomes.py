"""What a call may come to while something is broken: its answer or a typed error, in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from mastra_core.errors import LeaseError, MastraError, PubSubError, StorageError

__all__ = ("CALL_S", "FAMILIES", "RECOVERY_S", "WAIT_S", "attempt", "recovers", "until")

T = TypeVar("T")

CALL_S: Final = 10.0
"""Within so many seconds every call ends, whatever is broken (timeouts are at 2 s)."""

RECOVERY_S: Final = 5.0
"""So soon after the fault is over everything works again (design 5.5)."""

WAIT_S: Final = 20.0
"""So long a test waits for something that must come while others work."""

_PAUSE_S: Final = 0.02


#: What each role may raise.
FAMILIES: Final = {"storage": StorageError, "pubsub": PubSubError, "lease": LeaseError}


async def attempt(
    role: str, call: Callable[[], Awaitable[object]], *, deadline_s: float | None = None
) -> MastraError | None:
    """
    Call once; None if it worked, else the typed error.

    Raises:
        AssertionError: It hung, or raised something else than an error of its role.
    """
    seconds = CALL_S if deadline_s is None else deadline_s
    try:
        async with asyncio.timeout(seconds) as limit:
            await call()
    except FAMILIES[role] as exc:
        return exc
    except Exception as exc:
        if limit.expired():
            raise AssertionError(f"The call was not done after {seconds:g} s.") from exc
        raise AssertionError(
            f"{type(exc).__name__} came out, not a {FAMILIES[role].__name__}: {exc}"
        ) from exc
    return None


async def recovers(
    role: str, call: Callable[[], Awaitable[object]], *, within_s: float | None = None
) -> float:
    """
    Try until it works; the seconds that it took.

    Raises:
        AssertionError: It took longer, or hung, or raised something untyped.
    """
    within_s = RECOVERY_S if within_s is None else within_s
    loop = asyncio.get_running_loop()
    started = loop.time()
    while True:
        error = await attempt(role, call)
        took = loop.time() - started
        if error is None and took <= within_s:
            return took
        if took > within_s:
            raise AssertionError(f"It did not work again within {within_s:g} s: {error!r}")
        await asyncio.sleep(_PAUSE_S)


async def until(
    holds: Callable[[], bool], *, within_s: float | None = None, why: Callable[[], object] = str
) -> None:
    """
    Wait for something that must come while other tasks and processes work.

    Args:
        holds: Whether it has come.
        within_s: How long it may take.
        why: What to show if it doesn't come.

    Raises:
        AssertionError: It didn't come.
    """
    within_s = WAIT_S if within_s is None else within_s
    try:
        async with asyncio.timeout(within_s):
            while True:
                if holds():
                    return
                await asyncio.sleep(_PAUSE_S)
    except TimeoutError:
        raise AssertionError(f"It did not come within {within_s:g} s. {why()}".strip()) from None
