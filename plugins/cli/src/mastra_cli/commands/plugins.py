"""``mastra-py plugins``: what was found, and what became of it."""

from __future__ import annotations

import traceback
from typing import Annotated

import typer

from mastra_cli.exits import wrong_usage
from mastra_cli.options import JsonOption
from mastra_cli.render import print_json, print_table, print_text
from mastra_cli.stores import plugin_manager
from mastra_core.plugins import PluginManager, PluginStatus

__all__ = ("app",)

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def plugins(
    name: Annotated[
        str | None, typer.Argument(help="Show this plugin alone, with details.")
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List the plugins and what became of each."""
    import warnings

    manager = plugin_manager()
    with warnings.catch_warnings():
        # The list says it better.
        warnings.simplefilter("ignore")
        manager.load_all()
        found = list(manager.status())
    if name is not None:
        _show_one(manager, _named(found, name), as_json=as_json)
    elif as_json:
        print_json([item.to_dict() for item in found])
    else:
        rows = [
            (
                item.name,
                item.version,
                item.status,
                " ".join(item.schemes),
                item.reason or item.summary,
            )
            for item in found
        ]
        print_table(("NAME", "VERSION", "STATUS", "SCHEMES", "NOTE"), rows, empty="No plugins.")


def _named(found: list[PluginStatus], name: str) -> PluginStatus:
    for item in found:
        if name in {item.name, item.distribution}:
            return item
    known = ", ".join(item.name for item in found)
    raise wrong_usage(f"There is no plugin {name!r}. Known: {known}.")


def _show_one(manager: PluginManager, item: PluginStatus, *, as_json: bool) -> None:
    if as_json:
        print_json(item.to_dict())
        return
    for label, value in item.to_dict().items():
        shown = ", ".join(value) if isinstance(value, list) else value
        if shown:
            print_text(f"{label:<13} {shown}")
    for record in manager.records:
        cause = record.error.__cause__ if record.error is not None else None
        if record.name == item.name and cause is not None:
            print_text()
            print_text("".join(traceback.format_exception(cause)).rstrip())
