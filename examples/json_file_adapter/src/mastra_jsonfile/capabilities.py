"""What the store can do, and how it says that it can't do something."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

from mastra_core.errors import CapabilityNotSupportedError

__all__ = ("CAPABILITIES", "refuse", "refused")

P = ParamSpec("P")
T = TypeVar("T")

CAPABILITIES: Final = frozenset({"memory", "workflows", "notifications"})
"""Three of the six domains, without anything that is optional in them."""


def refuse(capability: str) -> NoReturn:
    """
    Say that this was never promised.

    Raises:
        CapabilityNotSupportedError: Always.
    """
    raise CapabilityNotSupportedError(adapter="jsonfile", capability=capability)


def refused(
    method: Callable[P, Coroutine[Any, Any, T]], capability: str
) -> Callable[P, Coroutine[Any, Any, T]]:
    """A method that looks like one of the contract and refuses every call."""

    @functools.wraps(method)
    async def refusing(*_: P.args, **__: P.kwargs) -> T:
        refuse(capability)

    return refusing
