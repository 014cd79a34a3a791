"""The commands of this package: where each one is, and its one line. Imports none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

__all__ = ("COMMANDS", "LazyCommand")


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command is, and what ``--help`` says about it."""

    target: str
    help: str


#: The commands of this package; plugins add theirs with ``mastra_cli_commands``.
COMMANDS: Final[Mapping[str, LazyCommand]] = MappingProxyType(
    {
        "demo": LazyCommand(
            "mastra_cli.commands.demo:app",
            "Real events, an agent, an approval, a killed process: the whole job in a minute.",
        ),
        "doctor": LazyCommand(
            "mastra_cli.commands.doctor:app", "Check the installation, the settings and a store."
        ),
        "plugins": LazyCommand(
            "mastra_cli.commands.plugins:app", "List the plugins and what became of each."
        ),
        "migrate": LazyCommand(
            "mastra_cli.commands.migrate:app", "Bring a database to the shape this version needs."
        ),
        "inbox": LazyCommand(
            "mastra_cli.commands.notifications:app", "Look into the inbox of a thread."
        ),
        "threads": LazyCommand("mastra_cli.commands.threads:app", "List threads and messages."),
        "runs": LazyCommand(
            "mastra_cli.commands.runs:app", "List runs that wait for an answer, and answer them."
        ),
        "models": LazyCommand(
            "mastra_cli.commands.models:app", "List local models and pull their weights."
        ),
        "conformance": LazyCommand(
            "mastra_cli.commands.conformance:app", "Prove what an adapter is worth."
        ),
    }
)
