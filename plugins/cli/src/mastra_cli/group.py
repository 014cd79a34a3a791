"""The root of the command line: commands that are imported when they are called.

``mastra-py --help`` must be quick, so it knows names and one line each, and imports no
command.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from mastra_cli.catalog import COMMANDS, LazyCommand

__all__ = ("RootGroup",)


#: Distributions of ours that are known to add no commands; they aren't imported for --help.
_WITHOUT_COMMANDS: Final = frozenset(
    {
        "mastra-core",
        "mastra-cli",
        "mastra-models",
        "mastra-processors",
        "mastra-otel",
        "mastra-github",
        "mastra-sql",
        "mastra-libsql",
        "mastra-postgres",
        "mastra-mongodb",
        "mastra-redis",
    }
)


class RootGroup(TyperGroup):
    """The group ``mastra-py`` itself."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Ours in the order above, then those of plugins."""
        return [*COMMANDS, *_foreign_commands()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, imported now; for ``--help`` only its one line."""
        known = COMMANDS.get(cmd_name) or _foreign_commands().get(cmd_name)
        if known is None:
            return None
        return _loaded(known.target, cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Names and help without importing anything."""
        rows = [(name, item.help) for name, item in {**COMMANDS, **_foreign_commands()}.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def main(self, args: Sequence[str] | None = None, *positional: Any, **extra: Any) -> Any:
        """Run; errors of ours end in one sentence, unless ``--debug`` is given."""
        given = list(sys.argv[1:] if args is None else args)
        debug, given = _without_debug(given)
        with _short_warnings():
            try:
                return super().main(given, *positional, **extra)
            except Exception as exc:
                if debug:
                    raise
                _end(exc)


def _without_debug(args: list[str]) -> tuple[bool, list[str]]:
    """``--debug`` may stand anywhere before a ``--``."""
    end = args.index("--") if "--" in args else len(args)
    head = [item for item in args[:end] if item != "--debug"]
    return len(head) != end, [*head, *args[end:]]


def _end(error: Exception) -> None:
    from mastra_cli.exits import exit_code_of, sentence_of
    from mastra_core.errors import MastraError

    if isinstance(error, MastraError):
        _fail(sentence_of(error), exit_code_of(error))
    if isinstance(error, BrokenPipeError):
        # Whoever read us has seen enough; Python must not complain at exit either.
        sys.stdout = _Nowhere()
        sys.exit(1)
    first = (str(error).splitlines() or [""])[0]
    _fail(
        f"Something unexpected went wrong: {type(error).__name__}: {first}\n"
        "Hint: --debug shows where.",
        1,
    )


class _Nowhere:
    """A stream that takes everything and keeps nothing."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        return


def _fail(text: str, code: int) -> None:
    sys.stderr.write(f"mastra-py: {text}\n")
    sys.exit(int(code))


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Warnings for people: one line, each only once, no place in the code."""

    def show(message: Warning | str, *_place: object, **_more: object) -> None:
        sys.stderr.write(f"Note: {message}\n")

    from mastra_core.errors import MastraWarning

    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.showwarning = show
            warnings.simplefilter("once", MastraWarning)
        yield


def _loaded(target: str, name: str) -> Any:
    """A click command from a typer application, a click command or a plain function."""
    module, _, attribute = target.partition(":")
    found: Any = import_module(module)
    for step in attribute.split("."):
        found = getattr(found, step)
    if isinstance(found, typer.Typer):
        command = typer.main.get_command(found)
        command.name = name
        return command
    if isinstance(found, TyperCommand | TyperGroup):
        return found
    wrapped = typer.Typer(add_completion=False, rich_markup_mode=None)
    wrapped.command(name)(found)
    return typer.main.get_command(wrapped)


def _foreign_commands() -> MutableMapping[str, LazyCommand]:
    """Commands of plugins that may have some; ours win over theirs."""
    from importlib.metadata import entry_points

    foreign = [
        item
        for item in entry_points(group="mastra_core")
        if item.dist is None or item.dist.name not in _WITHOUT_COMMANDS
    ]
    if not foreign:
        return {}
    from mastra_cli.stores import plugin_manager
    from mastra_core.plugins import Registry

    found: dict[str, LazyCommand] = {}
    for offer in Registry(plugin_manager()).cli_commands():
        spec = offer.spec
        if spec.name not in COMMANDS and isinstance(spec.factory, str):
            found[spec.name] = LazyCommand(spec.factory, spec.help)
    return found
