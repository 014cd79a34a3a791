"""``mastra-py doctor``: is everything as it should be, and what mends it if not."""

from __future__ import annotations

import platform
import warnings
from typing import Any

import typer

from mastra_cli.exits import Exit
from mastra_cli.options import JsonOption, UrlOption
from mastra_cli.render import print_json, print_table
from mastra_cli.running import waiting
from mastra_cli.stores import chosen_settings, plugin_manager

__all__ = ("app",)

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@waiting
async def doctor(*, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Check the installation, the settings and, with --url, a store."""
    from mastra_cli.check import Check
    from mastra_cli.checks import check_plugins, check_settings, check_store, plugin_checks

    settings = chosen_settings(url)
    manager = plugin_manager(settings)
    with warnings.catch_warnings():
        # What would be warned of is a line of the result.
        warnings.simplefilter("ignore")
        manager.load_all()
        checks: list[Check] = [_versions(), *check_plugins(manager), *check_settings(settings)]
        stored = await check_store(settings, manager)
        may_open = any(check.name == "storage" and check.status == "ok" for check in stored)
        checks += [*stored, *await plugin_checks(settings, manager, may_open=may_open)]
    is_well = all(check.status != "failed" for check in checks)
    if as_json:
        print_json({"ok": is_well, "checks": [check.to_wire() for check in checks]})
    else:
        rows = [(check.name, check.status, check.summary, check.fix) for check in checks]
        print_table(("CHECK", "STATUS", "FOUND", "FIX"), rows, empty="Nothing was checked.")
    if not is_well:
        raise typer.Exit(Exit.FAILED)


def _versions() -> Any:
    from mastra_cli.check import Check
    from mastra_core import __version__
    from mastra_core.plugins import API

    api = ".".join(map(str, API))
    return Check(
        name="versions",
        status="ok",
        summary=f"mastra-core {__version__}, plugin API {api}, wire 1.71, "
        f"Python {platform.python_version()}",
    )
