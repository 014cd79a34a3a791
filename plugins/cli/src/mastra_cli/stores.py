"""Opening the store that a command line names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from mastra_core.config import Settings, load_settings
from mastra_core.errors import ConfigError
from mastra_core.plugins import (
    AdapterContext,
    AdapterUrl,
    PluginManager,
    open_storage,
    parse_adapter_url,
)

if TYPE_CHECKING:
    from mastra_core.contracts.storage import Storage

__all__ = ("chosen_settings", "opened_store", "plugin_manager", "refuse_absent_file", "store_url")

#: The core's own plugins, which have no entry point.
_BUILTINS = ("mastra_core.inmemory.plugin",)


def chosen_settings(url: str | None) -> Settings:
    """The settings, the command line's URL above all others."""
    return load_settings({"storage": {"url": url}})


def plugin_manager(settings: Settings | None = None) -> PluginManager:
    """A manager for one command."""
    options = (settings or load_settings()).plugins.to_options()
    return PluginManager(builtins=_BUILTINS, options=options)


def store_url(settings: Settings) -> str:
    """
    The URL to open.

    Raises:
        ConfigError: None is set.
    """
    if settings.storage.url is None:
        raise ConfigError(
            "No store was named.",
            hint="Name one with --url file:./app.db, or set MASTRA_STORAGE_URL.",
        )
    return settings.storage.url


def refuse_absent_file(url: AdapterUrl) -> None:
    """
    Looking into a database must not create it.

    Raises:
        ConfigError: The URL names a file that isn't there.
    """
    if url.scheme != "file" or url.is_volatile:
        return
    path = Path(unquote(url.path))
    if not path.exists():
        raise ConfigError(
            f"There is no database {str(path)!r}.",
            hint="Check the path; 'mastra-py migrate' creates a database on purpose.",
        )


@asynccontextmanager
async def opened_store(
    url: str | None, *, initialise: bool = True, must_exist: bool = True
) -> AsyncIterator[Storage]:
    """
    The store for an ``async with`` block.

    Args:
        url: From the command line; the settings are asked otherwise.
        initialise: Create what is missing, as an application would.
        must_exist: Refuse a database file that isn't there.

    Raises:
        MastraError: It can't be opened; the message says why.
    """
    settings = chosen_settings(url)
    manager = plugin_manager(settings)
    target = parse_adapter_url(store_url(settings), schemes=manager.schemes())
    if must_exist:
        refuse_absent_file(target)
    opened = open_storage(
        target, manager, context=AdapterContext(), options=settings.storage.options
    )
    async with opened as store:
        if initialise:
            await store.init()
        yield store
