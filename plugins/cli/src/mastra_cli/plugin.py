"""What mastra-cli offers: its commands, named the way any plugin names its own."""

from __future__ import annotations

from collections.abc import Iterable

from mastra_cli.catalog import COMMANDS
from mastra_core.plugins import CliCommand, hookimpl

__all__ = ("MASTRA_PLUGIN_API", "mastra_cli_commands")

MASTRA_PLUGIN_API = (1, 0)


@hookimpl
def mastra_cli_commands() -> Iterable[CliCommand]:
    """The commands of ``mastra-py``."""
    for name, command in COMMANDS.items():
        yield CliCommand(name=name, factory=command.target, help=command.help)
