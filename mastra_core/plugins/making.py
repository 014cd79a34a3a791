"""Calling the factory that a descriptor names, with its settings; opens nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mastra_core.errors import DriverNotInstalledError, MastraError, PluginBrokenError
from mastra_core.plugins.calls import CONTAINED
from mastra_core.plugins.loading import import_name
from mastra_core.plugins.records import first_line
from mastra_core.plugins.settings import adapter_settings, options_instance
from mastra_core.plugins.versions import unmet_api

if TYPE_CHECKING:
    from mastra_core.contracts.model import Model
    from mastra_core.contracts.processor import Processor
    from mastra_core.plugins.choice import Offer
    from mastra_core.plugins.context import AdapterContext
    from mastra_core.plugins.records import PluginRecord
    from mastra_core.plugins.registry import Registry
    from mastra_core.plugins.specs import (
        AdapterSpec,
        ExporterSpec,
        Factory,
        FactoryDescriptor,
        ModelProviderSpec,
        ProcessorSpec,
        SignalProviderSpec,
    )
    from mastra_core.plugins.urls import AdapterUrl

__all__ = (
    "create_processor",
    "driver_errors",
    "load_factory",
    "make_adapter",
    "make_model",
    "make_with_options",
)


def make_adapter(
    offer: Offer[AdapterSpec],
    url: AdapterUrl,
    context: AdapterContext,
    *,
    options: Mapping[str, Any] | None = None,
    only_known: bool = False,
) -> Any:
    """
    An adapter that isn't opened yet; see ``adapter_settings`` for the arguments.

    Raises:
        DriverNotInstalledError: Its driver is missing.
        PluginBrokenError: Its module or factory raised.
        ConfigError: Options that it doesn't know or can't use.
    """
    with driver_errors(offer):
        model = import_name(offer.spec.settings) if offer.spec.settings is not None else None
        factory = load_factory(offer.spec.factory)
    settings = adapter_settings(model, url, options=options, only_known=only_known)
    with driver_errors(offer):
        return factory(settings, context)


def make_with_options(
    offer: Offer[ProcessorSpec] | Offer[SignalProviderSpec] | Offer[ExporterSpec],
    options: Mapping[str, Any],
    context: AdapterContext,
) -> Any:
    """
    A processor, signal provider or exporter from its options.

    Raises:
        DriverNotInstalledError: Something that it needs is missing.
        PluginBrokenError: Its module or factory raised.
        ConfigError: Options that it doesn't know or can't use.
    """
    spec = offer.spec
    with driver_errors(offer):
        model = import_name(spec.settings) if spec.settings is not None else None
        factory = load_factory(spec.factory)
    _check_api(offer.record, factory)
    settings = options_instance(model, options, where=f"the options of {spec.name!r}")
    with driver_errors(offer):
        return factory(settings, context)


def _check_api(record: PluginRecord, factory: object) -> None:
    """A short form states the processor API on its factory, which is imported only now."""
    unmet = unmet_api(factory)
    if unmet is not None:
        kind, needed, offered = unmet
        record.refuse_api(kind, needed, offered)
        raise record.failure


def create_processor(
    registry: Registry, processor_id: str, options: Mapping[str, Any], context: AdapterContext
) -> Processor:
    """
    A processor from configuration: plugins with an own answer first, then the descriptors.

    Raises:
        ConfigError: Nobody offers it, or the options don't fit.
        PluginError: The plugin that has it can't be used.
    """
    made: Processor | None = registry.manager.decide(
        "mastra_create_processor", processor_id=processor_id, options=options, context=context
    )
    if made is not None:
        return made
    processor: Processor = make_with_options(registry.processor(processor_id), options, context)
    return processor


def make_model(registry: Registry, name: str, context: AdapterContext) -> Model:
    """
    The model of a name such as ``openai/gpt-4o``.

    Raises:
        ModelNotFoundError: No plugin has the prefix.
        PluginError: The plugin that has it can't be used.
    """
    prefix, _, model_name = name.partition("/")
    offer: Offer[ModelProviderSpec] = registry.model_provider(prefix)
    with driver_errors(offer):
        model: Model = load_factory(offer.spec.factory)(model_name, context)
    return model


def load_factory(factory: Factory) -> Any:
    """The callable that an import string names."""
    return import_name(factory) if isinstance(factory, str) else factory


@contextmanager
def driver_errors(offer: Offer[Any], *, only_imports: bool = False) -> Iterator[None]:
    """
    Tell a missing driver from a broken plugin; our own errors pass.

    Args:
        offer: Whose code runs inside.
        only_imports: Let all but missing modules pass; while a database is being opened,
            an exception says nothing about the plugin.
    """
    try:
        yield
    except MastraError:
        raise
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing and missing not in _own_packages(offer.spec):
            raise _driver_missing(offer, missing) from error
        raise _broken(offer, error) from error
    except CONTAINED as error:
        if only_imports:
            raise
        raise _broken(offer, error) from error


def _own_packages(spec: FactoryDescriptor) -> set[str]:
    names = [spec.factory, getattr(spec, "settings", None)]
    packages = {name.partition(":")[0].partition(".")[0] for name in names if isinstance(name, str)}
    return packages | {"mastra_core"}


def _driver_missing(offer: Offer[Any], driver: str) -> DriverNotInstalledError:
    record = offer.record
    release = " ".join(filter(None, (record.distribution, record.version))) or record.name
    wanted = f"mastra-core[{offer.spec.extra}]" if offer.spec.extra else record.distribution
    command = f" Install it with: pip install '{wanted}'" if wanted else ""
    return DriverNotInstalledError(
        f"{release} is installed, but its driver {driver!r} is not.{command}",
        distribution=record.distribution or "",
        version=record.version or "",
        driver=driver,
        extra=offer.spec.extra or "",
    )


def _broken(offer: Offer[Any], error: BaseException) -> PluginBrokenError:
    record = offer.record
    return PluginBrokenError(
        plugin=record.name,
        distribution=record.distribution or "",
        version=record.version or "",
        reason=first_line(error),
    )
