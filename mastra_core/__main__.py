"""``python -m mastra_core``: what is installed and does the store open, without the CLI package.

``plugins`` lists what was found, ``doctor`` opens the store of the settings or of ``--url``.
Plain text, or ``--json``; exit codes 0 done, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from mastra_core import __version__
from mastra_core.config import Settings, load_settings
from mastra_core.errors import DegradedWarning, MastraError
from mastra_core.mastra import BUILTIN_PLUGINS, Mastra
from mastra_core.plugins import API, PluginManager

__all__ = ("main",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = _parser().parse_args(arguments)
    try:
        settings = load_settings({"storage": {"url": getattr(given, "url", None)}})
        if given.command == "plugins":
            found: dict[str, Any] = {"plugins": _plugins(settings, given.name)}
        else:
            found = asyncio.run(_doctor(settings))
    except MastraError as exc:
        hint = f"\nHint: {exc.hint}" if exc.hint else ""
        print(f"mastra_core: {exc.message}{hint}", file=sys.stderr)
        return 1
    if given.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        _print_plainly(found)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m mastra_core",
        description="Look at the installation. More commands: pip install 'mastra-core[cli]'.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    plugins = commands.add_parser("plugins", help="what was found, and what is wrong with it")
    plugins.add_argument("name", nargs="?", help="show only this plugin")
    doctor = commands.add_parser("doctor", help="open the store and say what it offers")
    doctor.add_argument("--url", help="a store, e.g. file:./app.db; the settings' if not given")
    for command in (plugins, doctor):
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _plugins(settings: Settings, name: str | None) -> list[dict[str, Any]]:
    manager = PluginManager(builtins=BUILTIN_PLUGINS, options=settings.plugins.to_options())
    manager.load_all()
    return [item.to_dict() for item in manager.status() if name is None or item.name == name]


async def _doctor(settings: Settings) -> dict[str, Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DegradedWarning)
        async with Mastra(settings=settings, notifications={"enabled": False}) as mastra:
            store = mastra.storage
            return {
                "version": __version__,
                "pluginApi": ".".join(map(str, API)),
                "storage": store.name,
                "volatile": store.volatile,
                "capabilities": sorted(store.capabilities),
                "warnings": [str(warning.message) for warning in caught],
            }


def _print_plainly(found: dict[str, Any]) -> None:
    for row in found.get("plugins", ()):
        reason = f": {row['reason']}" if row["reason"] else ""
        known = " ".join(str(row[key]) for key in ("distribution", "version") if row[key])
        print(f"{row['name']}  {row['status']}  {known}{reason}")
    for name, value in found.items():
        if name != "plugins":
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            print(f"{name}: {shown}")


if __name__ == "__main__":
    sys.exit(main())
