"""Opening the store that a command line names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from mastra_core.config import AdapterSection, Settings, load_settings
from mastra_core.errors import ConfigError, StorageSchemaError
from mastra_core.plugins import (
    AdapterContext,
    AdapterUrl,
    PluginManager,
    Registry,
    parse_adapter_url,
)
from mastra_core.plugins.loading import import_name
from mastra_core.plugins.making import driver_errors, make_adapter

if TYPE_CHECKING:
    from mastra_core.contracts.storage import Storage
    from mastra_core.plugins.choice import Offer
    from mastra_core.plugins.specs import AdapterSpec, Role

__all__ = (
    "chosen_settings",
    "is_absent_file",
    "made_roles",
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
    url: str | None,
    *,
    settings: Settings | None = None,
    in_memory: bool = False,
    migrates: bool = True,
    only_reads: bool = False,
) -> tuple[Storage, AdapterUrl]:
    """
    The store of the command line, not opened, and its URL.

    Args:
        url: From the command line; the settings are asked otherwise.
        settings: If they are read already.
        in_memory: An empty database of the same adapter instead of a file that isn't there.
        migrates: May opening it create or change tables? Adapters that can't be told not to
            have none.
        only_reads: With ``migrates=False``: open what a peer made and nobody prepared for us.

    Raises:
        MastraError: Nothing can be made of it; the message says why.
    """
    settings = settings or chosen_settings(url)
    manager = plugin_manager(settings)
    target = parse_adapter_url(store_url(settings), schemes=manager.schemes())
    if in_memory and is_absent_file(target):
        target = parse_adapter_url(":memory:")
    offer = Registry(manager).adapter("storage", target)
    options = dict(settings.storage.options)
    if not migrates and not target.is_volatile:
        wanted = {"disable_init": True, "allow_unprepared": only_reads}
        options.update({name: wanted[name] for name in _known_settings(offer) & wanted.keys()})
    store: Storage = make_adapter(offer, target, AdapterContext(), options=options)
    return store, target


def made_roles(
    url: str | None, *, settings: Settings | None = None, in_memory: bool = False
) -> dict[Role, Any]:
    """
    All that the adapter of the store's URL offers there: the store, its bus, its leases.

    None of them is opened; opened together, they share their connections.

    Args:
        url: From the command line; the settings are asked otherwise.
        settings: If they are read already.
        in_memory: An empty database of the same adapter instead of a file that isn't there.

    Raises:
        MastraError: Nothing can be made of it; the message says why.
    """
    settings = settings or chosen_settings(url)
    manager = plugin_manager(settings)
    store, target = made_store(url, settings=settings, in_memory=in_memory)
    context, registry = AdapterContext(), Registry(manager)
    found: dict[Role, Any] = {"storage": store}
    sections: dict[Role, AdapterSection] = {"pubsub": settings.pubsub, "lease": settings.lease}
    for role, section in sections.items():
        offer = registry.find_adapter(role, target.scheme)
        if offer is not None:
            # Options of a section are for its own URL, those of this URL for whoever knows them.
            options = section.options if section.url in {None, settings.storage.url} else {}
            found[role] = make_adapter(offer, target, context, options=options, only_known=True)
    return found


def _known_settings(offer: Offer[AdapterSpec]) -> frozenset[str]:
    """What can be set for the adapter."""
    if offer.spec.settings is None:
        return frozenset()
    with driver_errors(offer):
        model = import_name(offer.spec.settings)
    return frozenset(getattr(model, "model_fields", {}))


@asynccontextmanager
async def opened_store(url: str | None, *, only_reads: bool = False) -> AsyncIterator[Storage]:
    """
    The store for an ``async with`` block, on a database whose shape nobody changes.

    Args:
        url: From the command line; the settings are asked otherwise.
        only_reads: Nothing will be written, so a database that a peer or an older version made
            is opened as it is. One that has to be migrated is refused otherwise.

    Raises:
        MastraError: It isn't there or can't be opened; the message says why.
    """
    store, target = made_store(url, migrates=False, only_reads=only_reads)
    refuse_absent_file(target)
    async with AsyncExitStack() as stack:
        try:
            opened = await stack.enter_async_context(store)
            await opened.init()
        except StorageSchemaError as exc:
            if "statements" not in exc.details:
                raise
            raise _not_migrated(exc) from exc
        yield opened


def _not_migrated(error: StorageSchemaError) -> StorageSchemaError:
    count = error.details["statements"]
    missing = "1 statement is" if count == 1 else f"{count} statements are"
    return StorageSchemaError(
        f"This database has not been prepared for mastra-py yet: {missing} missing, and no "
        "command but migrate adds anything to a database.",
        id=error.id,
        hint="'mastra-py migrate --dry-run' shows what is missing, 'mastra-py migrate' adds it.",
        details=error.details,
    )
