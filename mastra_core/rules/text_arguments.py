"""Arguments that must be texts, refused at the door of a domain if they are something else.

An id that comes out of a request may be anything. A list has no hash, a mapping is a query in
some databases. What a method says in its signature (``str``, ``str | None``,
``Sequence[str]``) is therefore checked for all methods of a domain in one place.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar

from mastra_core.errors import StorageArgumentError, shown

__all__ = ("check_text_arguments",)

T = TypeVar("T", bound=type)

_TEXTS: Final = frozenset({"str", "str | None"})
_LISTS: Final = frozenset({"Sequence[str]", "Sequence[str] | None"})
_MARK: Final = "__checks_text_arguments__"


def check_text_arguments(domain: T) -> T:
    """
    The class, whose public coroutine methods raise ``StorageArgumentError`` for an argument
    that isn't the text, or the list of texts, that they ask for. None passes: whether it means
    something is for the method to say.
    """
    for name in dir(domain):
        method = getattr(domain, name)
        if not name.startswith("_") and inspect.iscoroutinefunction(method):
            checked = _checked(method)
            if checked is not None:
                setattr(domain, name, checked)
    return domain


def _checked(method: Callable[..., Any]) -> Callable[..., Any] | None:
    """The method with its check in front; None if it has one, or needs none."""
    if hasattr(method, _MARK):
        return None
    kinds = {
        name: str(parameter.annotation)
        for name, parameter in inspect.signature(method).parameters.items()
    }
    wanted: Mapping[str, str] = {n: k for n, k in kinds.items() if k in _TEXTS or k in _LISTS}
    if not wanted:
        return None
    positions = list(kinds)[1:]

    @functools.wraps(method)
    async def checking(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name, value in (*zip(positions, args, strict=False), *kwargs.items()):
            kind = wanted.get(name)
            if kind is None or value is None or (type(value) is str and kind in _TEXTS):
                continue
            _check(name, value, kind)
        return await method(self, *args, **kwargs)

    setattr(checking, _MARK, True)
    return checking


def _check(name: str, value: object, kind: str) -> None:
    if kind in _TEXTS:
        if isinstance(value, str):
            return
        words = "a text"
    else:
        if (
            isinstance(value, Collection)
            and not isinstance(value, str | bytes | Mapping)
            and all(isinstance(item, str) for item in value)
        ):
            return
        words = "a list of texts"
    raise StorageArgumentError(
        f"{name} must be {words}, not {shown(value)}.", details={"argument": name}
    )
