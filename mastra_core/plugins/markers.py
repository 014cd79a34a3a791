"""The two marks: ``hookimpl`` for plugins, ``hookspec`` for whoever defines hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias, TypeVar

import pluggy

from mastra_core.plugins.discovery import GROUP

__all__ = ("PROJECT", "HookPolicy", "hookimpl", "hookspec", "policy_of")

#: Name of the pluggy project, the same as that of the entry-point group.
PROJECT: Final = GROUP

#: How the implementations of a hook are called, see ``calls``.
HookPolicy: TypeAlias = Literal["collect", "gather", "decide", "permit", "observe"]

F = TypeVar("F", bound=Callable[..., Any])

#: Marks a function of a plugin as the implementation of the hook of the same name.
hookimpl: Final = pluggy.HookimplMarker(PROJECT)

_spec: Final = pluggy.HookspecMarker(PROJECT)
_POLICY: Final = "mastra_hook_policy"


def hookspec(*, policy: HookPolicy, historic: bool = False) -> Callable[[F], F]:
    """
    Mark a function as the definition of a hook.

    Args:
        policy: How its implementations are called and what their failure means.
        historic: Plugins that are loaded later are called, too.
    """

    def mark(function: F) -> F:
        setattr(function, _POLICY, policy)
        return _spec(function, firstresult=policy == "decide", historic=historic)

    return mark


def policy_of(function: Callable[..., Any]) -> HookPolicy:
    """The policy of a marked definition; ``collect`` if it was marked with bare pluggy."""
    policy: HookPolicy = getattr(function, _POLICY, "collect")
    return policy
