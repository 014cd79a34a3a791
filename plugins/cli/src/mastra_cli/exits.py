"""How a command ends: exit codes, and one sentence instead of a traceback (style.md 12)."""

from __future__ import annotations

from enum import IntEnum

from mastra_core.errors import (
    AdapterNotInstalledError,
    CapabilityNotSupportedError,
    ConfigError,
    DriverNotInstalledError,
    MastraError,
    RunArgumentError,
    StorageArgumentError,
)

__all__ = ("EnvironmentMissingError", "Exit", "exit_code_of", "sentence_of", "wrong_usage")


class Exit(IntEnum):
    """Exit codes of every command."""

    DONE = 0
    FAILED = 1
    WRONG_USAGE = 2
    ENVIRONMENT_MISSING = 3


class EnvironmentMissingError(MastraError):
    """Something that the command needs isn't installed, pulled or started."""

    id = "MASTRA_CLI_ENVIRONMENT_MISSING"
    category = "USER"


#: Ids of errors whose classes belong to packages that we don't import.
_MISSING_IDS = frozenset({"MODEL_WEIGHTS_UNAVAILABLE"})
_MISSING = (AdapterNotInstalledError, DriverNotInstalledError, EnvironmentMissingError)
_USAGE = (ConfigError, StorageArgumentError, RunArgumentError, CapabilityNotSupportedError)


def exit_code_of(error: MastraError) -> Exit:
    """3 if something is missing, 2 if the command was wrong, else 1."""
    if isinstance(error, _MISSING) or error.id in _MISSING_IDS:
        return Exit.ENVIRONMENT_MISSING
    return Exit.WRONG_USAGE if isinstance(error, _USAGE) else Exit.FAILED


def sentence_of(error: MastraError) -> str:
    """What happened and, below it, what to do."""
    lines = [" ".join(error.message.split())]
    if error.hint and error.hint not in error.message:
        lines.append(f"Hint: {error.hint}")
    return "\n".join(lines)


def wrong_usage(message: str, *, hint: str | None = None) -> ConfigError:
    """The command line asks for something that can't be."""
    return ConfigError(message, hint=hint)
