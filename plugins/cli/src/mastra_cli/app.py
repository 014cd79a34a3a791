"""The entry of ``mastra-py``; commands live in ``commands``."""

from __future__ import annotations

import typer

from mastra_cli import __version__

__all__ = ("app", "main")

app = typer.Typer(name="mastra-py", no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def root() -> None:
    """Look into threads, inboxes and runs of a Mastra store."""


@app.command()
def version() -> None:
    """Print the version of this command."""
    typer.echo(__version__)


def main() -> None:
    """Run the command line."""
    app()
