"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ("AppOption", "JsonOption", "LimitOption", "PageOption", "ThreadOption", "UrlOption")

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
