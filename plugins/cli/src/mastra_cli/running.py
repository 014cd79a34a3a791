"""Commands that wait: a coroutine function as a command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

import typer

__all__ = ("new_group", "waiting")

P = ParamSpec("P")


def new_group(help: str | None = None) -> typer.Typer:
    """A group of commands that looks as all of them do."""
    return typer.Typer(help=help, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


def waiting(command: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """The command as a plain function that runs its own event loop."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(command(*args, **kwargs))

    return run
