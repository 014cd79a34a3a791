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
    Registry,
    parse_adapter_url,
)
from mastra_core.plugins.making import make_adapter

if TYPE_CHECKING:
    from mastra_core.contracts.storage import Storage

__all__ = (
    "chosen_settings",
    "is_absent_file",
    "made_store",
    "opened_store",
    "plugin_manager",
    "refuse_absent_file",
    "store_url",
)

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


def is_absent_file(url: AdapterUrl) -> bool:
    """Whether the URL names a file that isn't there."""
    if url.scheme != "file" or url.is_volatile:
        return False
    return not Path(unquote(url.path)).exists()


def refuse_absent_file(url: AdapterUrl) -> None:
    """
    Looking into a database must not create it.

    Raises:
        ConfigError: The URL names a file that isn't there.
    """
    if is_absent_file(url):
        raise ConfigError(
            f"There is no database {unquote(url.path)!r}.",
            hint="Check the path; 'mastra-py migrate' creates a database on purpose.",
        )


def made_store(
    url: str | None, *, settings: Settings | None = None, in_memory: bool = False
) -> tuple[Storage, AdapterUrl]:
    """
    The store of the command line, not opened, and its URL.

    Args:
        url: From the command line; the settings are asked otherwise.
        settings: If they are read already.
        in_memory: An empty database of the same adapter instead of a file that isn't there.

    Raises:
        MastraError: Nothing can be made of it; the message says why.
    """
    settings = settings or chosen_settings(url)
    manager = plugin_manager(settings)
    target = parse_adapter_url(store_url(settings), schemes=manager.schemes())
    if in_memory and is_absent_file(target):
        target = parse_adapter_url(":memory:")
    offer = Registry(manager).adapter("storage", target)
    store: Storage = make_adapter(offer, target, AdapterContext(), options=settings.storage.options)
    return store, target


@asynccontextmanager
async def opened_store(url: str | None) -> AsyncIterator[Storage]:
    """
    The store for an ``async with`` block; a database file that isn't there is refused.

    Raises:
        MastraError: It can't be opened; the message says why.
    """
    store, target = made_store(url)
    refuse_absent_file(target)
    async with store as opened:
        await opened.init()
        yield opened
