"""From a URL or an object to an opened store, bus or lease provider (design 4.4).

What the user hands in as an object is used as it is and stays open; what we open from a
URL we close.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from mastra_core.errors import ConfigError, DegradedWarning
from mastra_core.plugins.context import AdapterContext
from mastra_core.plugins.making import driver_errors, make_adapter
from mastra_core.plugins.registry import Registry
from mastra_core.plugins.urls import AdapterUrl, parse_adapter_url

if TYPE_CHECKING:
    from mastra_core.contracts.lease import LeaseProvider
    from mastra_core.contracts.pubsub import PubSub
    from mastra_core.contracts.storage import Storage
    from mastra_core.plugins.manager import PluginManager
    from mastra_core.plugins.specs import Role

__all__ = (
    "IN_PROCESS",
    "Infrastructure",
    "open_infrastructure",
    "open_lease",
    "open_pubsub",
    "open_storage",
)

T = TypeVar("T")

#: What is used where nothing is configured.
IN_PROCESS: Final = "memory:"


def open_storage(
    target: str | AdapterUrl | Storage,
    manager: PluginManager,
    *,
    context: AdapterContext | None = None,
    options: Mapping[str, Any] | None = None,
    own: bool = False,
) -> AbstractAsyncContextManager[Storage]:
    """
    Open a store for an ``async with`` block.

    Args:
        target: A URL, or a store that is used as it is.
        manager: Finds the adapter.
        context: What factories get; share it between roles so that they share pools.
        options: Settings of the adapter beside those in the URL, which win.
        own: Open and close a store that was handed in, too.

    Raises:
        ConfigError, PluginError: The URL can't be used; the message says why.
        StorageError: The store didn't open.
    """
    opened = _open("storage", target, manager, context=context, options=options, own=own)
    # The adapter of the role is what the descriptor promised and the suite proves.
    return cast("AbstractAsyncContextManager[Storage]", opened)


def open_pubsub(
    target: str | AdapterUrl | PubSub,
    manager: PluginManager,
    *,
    context: AdapterContext | None = None,
    options: Mapping[str, Any] | None = None,
    own: bool = False,
) -> AbstractAsyncContextManager[PubSub]:
    """Open a bus for an ``async with`` block; see ``open_storage``."""
    opened = _open("pubsub", target, manager, context=context, options=options, own=own)
    return cast("AbstractAsyncContextManager[PubSub]", opened)  # as in open_storage


def open_lease(
    target: str | AdapterUrl | LeaseProvider,
    manager: PluginManager,
    *,
    context: AdapterContext | None = None,
    options: Mapping[str, Any] | None = None,
    own: bool = False,
) -> AbstractAsyncContextManager[LeaseProvider]:
    """Open a lease provider for an ``async with`` block; see ``open_storage``."""
    opened = _open("lease", target, manager, context=context, options=options, own=own)
    return cast("AbstractAsyncContextManager[LeaseProvider]", opened)  # as in open_storage


@asynccontextmanager
async def _open(
    role: Role,
    target: object,
    manager: PluginManager,
    *,
    context: AdapterContext | None,
    options: Mapping[str, Any] | None,
    own: bool = False,
    only_known: bool = False,
) -> AsyncIterator[object]:
    url = _url_of(target, manager)
    if url is None:
        if options:
            raise ConfigError(f"Options for an open {role} have no effect; give a URL instead.")
        if not own:
            yield target
            return
        async with _managed(target, role) as opened:
            yield opened
        return
    registry = Registry(manager)
    offer = registry.adapter(role, url)
    adapter = make_adapter(
        offer, url, context or AdapterContext(), options=options, only_known=only_known
    )
    async with AsyncExitStack() as stack:
        with driver_errors(offer, only_imports=True):
            opened = await stack.enter_async_context(_managed(adapter, role))
        yield opened


def _url_of(target: object, manager: PluginManager) -> AdapterUrl | None:
    """The parsed URL; None if the target is an object to use."""
    if isinstance(target, AdapterUrl):
        return target
    if not isinstance(target, str):
        return None
    return parse_adapter_url(target, schemes=manager.schemes())


def _managed(target: object, role: Role) -> AbstractAsyncContextManager[object]:
    if isinstance(target, AbstractAsyncContextManager):
        return target
    raise ConfigError(f"{type(target).__name__} can't be opened as {role}: no 'async with'.")


# All three together ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Infrastructure:
    """The opened store, bus and lease provider of one ``Mastra`` object."""

    storage: Storage
    pubsub: PubSub
    lease: LeaseProvider
    #: True if other processes see the store, but not the leases.
    is_degraded: bool


@asynccontextmanager
async def open_infrastructure(
    manager: PluginManager,
    *,
    storage: str | AdapterUrl | Storage | None = None,
    pubsub: str | AdapterUrl | PubSub | None = None,
    lease: str | AdapterUrl | LeaseProvider | None = None,
    context: AdapterContext | None = None,
    options: Mapping[Role, Mapping[str, Any]] | None = None,
    own: bool = False,
) -> AsyncIterator[Infrastructure]:
    """
    Open all three roles, and choose those that nobody named (design 4.4.3).

    No storage and no pubsub mean in-process ones. No lease means: the provider of the
    named pubsub, else the lease adapter of its scheme, else that of the storage's scheme,
    else an in-process one. A shared store whose lease falls back to an in-process one gives
    one ``DegradedWarning``; naming ``lease="memory:"`` says that one process is meant.

    Raises:
        ConfigError, PluginError: A URL can't be used; the message says why.
        StorageError, PubSubError, LeaseError: Something didn't open.
    """
    context = context or AdapterContext()
    by_role = options or {}
    async with AsyncExitStack() as stack:
        opened_storage = await stack.enter_async_context(
            open_storage(
                IN_PROCESS if storage is None else storage,
                manager,
                context=context,
                options=by_role.get("storage"),
                own=own,
            )
        )
        opened_pubsub = await stack.enter_async_context(
            open_pubsub(
                IN_PROCESS if pubsub is None else pubsub,
                manager,
                context=context,
                options=by_role.get("pubsub"),
                own=own,
            )
        )
        provider = None
        if lease is None and pubsub is not None:
            provider = opened_pubsub.get_lease_provider()
        if provider is None:
            chosen = lease if lease is not None else _lease_url(manager, pubsub, storage)
            provider = await stack.enter_async_context(
                _open_chosen_lease(
                    chosen,
                    manager,
                    context=context,
                    options=by_role.get("lease"),
                    own=own,
                    is_default=lease is None,
                )
            )
        is_degraded = not opened_storage.volatile and not provider.lease_capabilities.cross_process
        if is_degraded and lease is None:
            # Whoever names an in-process lease knows it.
            _warn_degraded(opened_storage.name)
        yield Infrastructure(
            storage=opened_storage, pubsub=opened_pubsub, lease=provider, is_degraded=is_degraded
        )


def _lease_url(manager: PluginManager, *targets: object) -> AdapterUrl | str:
    """The first of these URLs whose scheme has a lease adapter, else the in-process one."""
    registry = Registry(manager)
    for target in targets:
        url = _url_of(target, manager) if target is not None else None
        if url is None or url.is_volatile:
            continue
        offer = registry.find_adapter("lease", url.scheme)
        if offer is not None:
            return url
    return IN_PROCESS


def _open_chosen_lease(
    target: object,
    manager: PluginManager,
    *,
    context: AdapterContext,
    options: Mapping[str, Any] | None,
    own: bool,
    is_default: bool,
) -> AbstractAsyncContextManager[LeaseProvider]:
    opened = _open(
        "lease",
        target,
        manager,
        context=context,
        options=options,
        own=own,
        only_known=is_default,
    )
    return cast("AbstractAsyncContextManager[LeaseProvider]", opened)  # as in open_storage


def _warn_degraded(storage: str) -> None:
    warnings.warn(
        f"Other processes can use the storage {storage!r}, but they don't see the leases of this "
        "one: two processes may run one thread at a time. "
        'Name a lease that all of them reach, or say lease="memory:" if this process is alone.',
        DegradedWarning,
        stacklevel=3,
    )
