"""``mastra-py conformance``: the suite of mastra-conformance, under this roof."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import typer

from mastra_cli.exits import EnvironmentMissingError
from mastra_cli.running import new_group

__all__ = ("app",)

app = new_group("Prove what an adapter is worth.")

#: Everything behind the command belongs to the suite, its --help included.
_PASS_ON: dict[str, Any] = {
    "add_help_option": False,
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
}


@app.command(**_PASS_ON)
def run(context: typer.Context) -> None:
    """Run the suite against an adapter: run memory:"""
    _delegate("run", context)


@app.command(**_PASS_ON)
def cases(context: typer.Context) -> None:
    """List the numbered cases of the specs, proven and open."""
    _delegate("cases", context)


@app.command(**_PASS_ON)
def report(context: typer.Context) -> None:
    """Show or compare reports."""
    _delegate("report", context)


def _delegate(command: str, context: typer.Context) -> None:
    if find_spec("mastra_conformance") is None:
        raise EnvironmentMissingError(
            "The conformance suite is not installed. "
            "Install it with: pip install 'mastra-core[conformance]'"
        )
    from mastra_conformance.cli import main

    raise typer.Exit(main([command, *context.args]))
