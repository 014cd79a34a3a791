"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from mastra_cli.exits import wrong_usage

__all__ = (
    "AppOption",
    "JsonOption",
    "LimitOption",
    "PageOption",
    "ThreadOption",
    "UrlOption",
    "check_paging",
)

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="The store, such as file:./app.db; MASTRA_STORAGE_URL or mastra.toml otherwise.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON under the wire names.")]
ThreadOption = Annotated[str, typer.Option("--thread", metavar="ID", help="Which thread.")]
LimitOption = Annotated[int, typer.Option("--limit", metavar="N", help="At most so many.")]
PageOption = Annotated[int, typer.Option("--page", metavar="N", help="Which page, from 0.")]
AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="MODULE:NAME",
        help="Where your Agent or Mastra object is, or a function that makes it.",
    ),
]


def check_paging(limit: int, page: int) -> None:
    """
    Refuse what is no page.

    Raises:
        ConfigError: ``--limit`` is below 1, or ``--page`` below 0.
    """
    if limit < 1:
        raise wrong_usage(f"--limit is {limit}; it must be at least 1.")
    if page < 0:
        raise wrong_usage(f"--page is {page}; it must be at least 0.")
