"""The entry of ``mastra-py``; commands live in ``commands``."""

from __future__ import annotations

from typing import Annotated

import typer

from mastra_cli import __version__
from mastra_cli.group import RootGroup

__all__ = ("app", "main")

app = typer.Typer(
    name="mastra-py",
    cls=RootGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Help with colours would import rich, and take longer than the help itself.
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - an option of the command line
    if wanted:
        typer.echo(f"mastra-py {__version__}")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks; may stand anywhere.")
    ] = False,
) -> None:
    """Look into threads, inboxes and runs of a Mastra store, and see the demo."""


def main() -> None:
    """Run the command line."""
    app()
