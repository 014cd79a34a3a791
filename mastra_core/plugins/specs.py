"""Descriptors: what a plugin says about the things that it offers.

A descriptor is a frozen value. It names its factory as an import string, so that asking
what exists imports no driver. Descriptors say nothing about how a thing behaves; that is
``contracts``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from mastra_core.contracts.capabilities import inconsistencies
from mastra_core.contracts.processor import HOOKS
from mastra_core.errors import ConfigError

if TYPE_CHECKING:
    from mastra_core.contracts.lease import LeaseCapabilities
    from mastra_core.contracts.processor import Processor
    from mastra_core.contracts.pubsub import PubSubCapabilities

__all__ = (
    "DESCRIPTORS",
    "ERROR_SLOTS",
    "INPUT_SLOTS",
    "OUTPUT_SLOTS",
    "AdapterSpec",
    "CheckResult",
    "CliCommand",
    "Descriptor",
    "DoctorCheck",
    "ExporterSpec",
    "Factory",
    "FactoryDescriptor",
    "HttpRoutes",
    "LeaseSpec",
    "ModelProviderSpec",
    "Placed",
    "ProcessorSpec",
    "PubSubSpec",
    "Role",
    "SignalProviderSpec",
    "StorageSpec",
    "WireCodec",
)

#: What an adapter can be used for.
Role: TypeAlias = Literal["storage", "pubsub", "lease"]

#: ``"pkg.mod:name"`` or the callable itself; the string is preferred.
Factory: TypeAlias = str | Callable[..., Any]

#: Places in the list of input processors, first to last (processors.md 10.3).
INPUT_SLOTS: Final[tuple[str, ...]] = (
    "memory",
    "workspace",
    "skills",
    "channel",
    "browser",
    "user",
    "step",
    "guard",
)

#: Places in the list of output processors, first to last.
OUTPUT_SLOTS: Final[tuple[str, ...]] = ("user", "channel", "memory", "structured")

#: The one place in the list of error processors.
ERROR_SLOTS: Final[tuple[str, ...]] = ("user",)

_IMPORT_STRING: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9]*([+._-][a-z0-9]+)*")
_DRIVER: Final = re.compile(r"[a-z][a-z0-9_]*")
_IDENTIFIER: Final = re.compile(r"[a-z][a-z0-9_]*")
_DASHED: Final = re.compile(r"[a-z][a-z0-9_-]*")
#: Ids of processors stand in stored data, so they keep the form of the TypeScript system.
_PROCESSOR_ID: Final = re.compile(r"[a-z][a-z0-9_-]*(/[a-z][a-z0-9_-]*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """What every descriptor has."""

    #: Short lower-case id, unique among its kind.
    name: str
    #: The extra of ``mastra-core`` that installs what this needs.
    extra: str | None = None
    #: One sentence for ``plugins`` and ``doctor``.
    summary: str = ""
    docs_url: str | None = None

    #: What a name of this kind looks like.
    name_form: ClassVar[re.Pattern[str]] = _IDENTIFIER

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name_form.fullmatch(self.name):
            raise _fault(self, f"name {self.name!r} doesn't match {self.name_form.pattern}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FactoryDescriptor(Descriptor):
    """A descriptor of something that a factory makes when it is needed."""

    factory: Factory

    def __post_init__(self) -> None:
        Descriptor.__post_init__(self)
        _check_import(self, "factory", self.factory)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSpec(FactoryDescriptor):
    """
    What the adapters of the three roles have in common.

    ``factory(settings, context)`` is synchronous and opens nothing; what it returns is an
    async context manager. ``settings`` is an instance of the model named by ``settings``,
    or the parsed ``AdapterUrl`` if there is none; ``context`` is an ``AdapterContext``.
    """

    #: URL schemes without ``+driver``, lower case.
    schemes: tuple[str, ...]
    #: Import string of a pydantic model with a field ``url``.
    settings: str | None = None
    #: Accepted ``+driver`` names; the first is the default.
    drivers: tuple[str, ...] = ()

    role: ClassVar[Role]

    def __post_init__(self) -> None:
        FactoryDescriptor.__post_init__(self)
        _check_names(self, "schemes", self.schemes, _SCHEME)
        if not self.schemes:
            raise _fault(self, "schemes is empty")
        _check_names(self, "drivers", self.drivers, _DRIVER)
        if self.settings is not None:
            _check_import(self, "settings", self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSpec(AdapterSpec):
    """
    An adapter that stores.

    Example::

        StorageSpec(
            name="acme",
            schemes=("acme",),
            factory="mastra_acme.storage:AcmeStorage",
            settings="mastra_acme.settings:AcmeSettings",
            capabilities=frozenset({"memory", "workflows"}),
        )
    """

    #: Names of ``contracts.capabilities.STORAGE_CAPABILITIES``.
    capabilities: frozenset[str] = frozenset()

    role: ClassVar[Role] = "storage"

    def __post_init__(self) -> None:
        AdapterSpec.__post_init__(self)
        if not isinstance(self.capabilities, frozenset):
            raise _fault(self, "capabilities is not a frozenset")
        foreign = {name for name in self.capabilities if name.startswith(("pubsub.", "lease."))}
        faults = [f"{name!r} is not a capability of a storage." for name in sorted(foreign)]
        faults += inconsistencies(self.capabilities - foreign)
        if faults:
            raise _fault(self, f"capabilities: {' '.join(faults)}"[:-1])


def _no_pubsub_capabilities() -> PubSubCapabilities:
    from mastra_core.contracts.pubsub import PubSubCapabilities

    return PubSubCapabilities()


def _no_lease_capabilities() -> LeaseCapabilities:
    from mastra_core.contracts.lease import LeaseCapabilities

    return LeaseCapabilities()


@dataclass(frozen=True, slots=True, kw_only=True)
class PubSubSpec(AdapterSpec):
    """An adapter that carries events."""

    capabilities: PubSubCapabilities = field(default_factory=_no_pubsub_capabilities)

    role: ClassVar[Role] = "pubsub"

    def __post_init__(self) -> None:
        from mastra_core.contracts.capabilities import pubsub_capability_names
        from mastra_core.contracts.pubsub import PubSubCapabilities

        AdapterSpec.__post_init__(self)
        if not isinstance(self.capabilities, PubSubCapabilities):
            raise _fault(self, "capabilities is not a PubSubCapabilities")
        if faults := inconsistencies(pubsub_capability_names(self.capabilities)):
            raise _fault(self, f"capabilities: {' '.join(faults)}"[:-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSpec(AdapterSpec):
    """An adapter that keeps other processes out."""

    capabilities: LeaseCapabilities = field(default_factory=_no_lease_capabilities)

    role: ClassVar[Role] = "lease"

    def __post_init__(self) -> None:
        from mastra_core.contracts.capabilities import lease_capability_names
        from mastra_core.contracts.lease import LeaseCapabilities

        AdapterSpec.__post_init__(self)
        if not isinstance(self.capabilities, LeaseCapabilities):
            raise _fault(self, "capabilities is not a LeaseCapabilities")
        if faults := inconsistencies(lease_capability_names(self.capabilities)):
            raise _fault(self, f"capabilities: {' '.join(faults)}"[:-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorSpec(FactoryDescriptor):
    """
    A processor that configuration can name.

    ``factory(options, context)`` returns a ``Processor``; ``options`` is an instance of
    the model named by ``settings``, or a plain dict if there is none. ``name`` is the
    processor's id, so dashes and one or more ``/`` are allowed.
    """

    settings: str | None = None
    #: Which methods it implements; empty means "not told".
    phases: frozenset[str] = frozenset()
    #: Take the place of another plugin's processor of this name, instead of a conflict.
    replace: bool = False

    name_form: ClassVar[re.Pattern[str]] = _PROCESSOR_ID

    def __post_init__(self) -> None:
        FactoryDescriptor.__post_init__(self)
        if self.settings is not None:
            _check_import(self, "settings", self.settings)
        if unknown := sorted(set(self.phases) - set(HOOKS)):
            raise _fault(self, f"phases has unknown names: {', '.join(map(repr, unknown))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProviderSpec(FactoryDescriptor):
    """
    Models whose names start with ``<prefix>/``.

    ``factory(model_name, context)`` returns a ``Model``; ``model_name`` is the part after
    the prefix.
    """

    #: Empty means: the name is the only prefix.
    prefixes: tuple[str, ...] = ()

    name_form: ClassVar[re.Pattern[str]] = _DASHED

    def __post_init__(self) -> None:
        FactoryDescriptor.__post_init__(self)
        _check_names(self, "prefixes", self.prefixes, _DASHED)

    @property
    def all_prefixes(self) -> tuple[str, ...]:
        """The prefixes that this provider answers to."""
        return self.prefixes or (self.name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalProviderSpec(FactoryDescriptor):
    """A source of signals; ``factory(options, context)`` as for processors."""

    settings: str | None = None

    name_form: ClassVar[re.Pattern[str]] = _DASHED

    def __post_init__(self) -> None:
        FactoryDescriptor.__post_init__(self)
        if self.settings is not None:
            _check_import(self, "settings", self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRoutes(FactoryDescriptor):
    """
    Routes for the HTTP server, mounted under ``prefix``.

    ``factory(mastra)`` returns an ASGI application or a sequence of routes.
    """

    prefix: str
    #: What a caller must be allowed to do to get in.
    scopes: frozenset[str] = frozenset()

    name_form: ClassVar[re.Pattern[str]] = _DASHED

    def __post_init__(self) -> None:
        FactoryDescriptor.__post_init__(self)
        if not self.prefix.startswith("/") or (self.prefix.endswith("/") and self.prefix != "/"):
            raise _fault(self, f"prefix {self.prefix!r} must start, and not end, with a slash")


@dataclass(frozen=True, slots=True, kw_only=True)
class CliCommand(FactoryDescriptor):
    """A command of ``mastra-py``; ``factory`` is a function or a typer application."""

    #: One line for ``mastra-py --help``, so that the command isn't imported for it.
    help: str

    name_form: ClassVar[re.Pattern[str]] = _DASHED


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterSpec(FactoryDescriptor):
    """Sends spans somewhere; ``factory(options, context)`` as for processors."""

    settings: str | None = None

    name_form: ClassVar[re.Pattern[str]] = _DASHED

    def __post_init__(self) -> None:
        FactoryDescriptor.__post_init__(self)
        if self.settings is not None:
            _check_import(self, "settings", self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireCodec(Descriptor):
    """How a class of the plugin travels inside tagged values (pubsub_and_lease.md 2)."""

    #: The constructor name under which peers know the class.
    tag: str
    type: type
    #: Object → plain JSON values, and back.
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]

    name_form: ClassVar[re.Pattern[str]] = _DASHED

    def __post_init__(self) -> None:
        Descriptor.__post_init__(self)
        if not self.tag:
            raise _fault(self, "tag is empty")
        if not isinstance(self.type, type):
            raise _fault(self, f"type {self.type!r} is not a class")
        for member in ("encode", "decode"):
            if not callable(getattr(self, member)):
                raise _fault(self, f"{member} is not callable")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What a check of ``doctor`` found."""

    status: Literal["ok", "warning", "failed"]
    summary: str
    #: The command or setting that mends it.
    fix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorCheck(FactoryDescriptor):
    """
    One check of ``doctor``.

    ``factory(mastra)`` does the check and returns a ``CheckResult``, or an awaitable of it.
    """

    name_form: ClassVar[re.Pattern[str]] = _DASHED


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A processor and its place in the list; equal places keep the order of the plugins."""

    processor: Processor
    slot: str = "user"
    #: Smaller is earlier; the agent's own list has order 0 in slot ``user``.
    order: int = 0

    def __post_init__(self) -> None:
        if not isinstance(getattr(self.processor, "id", None), str):
            raise ConfigError(f"{type(self.processor).__name__} is no processor: it has no id.")
        known = dict.fromkeys((*INPUT_SLOTS, *OUTPUT_SLOTS, *ERROR_SLOTS))
        if self.slot not in known:
            raise ConfigError(f"Slot {self.slot!r} is not one of {', '.join(known)}.")


#: What the hooks without arguments yield.
DESCRIPTORS: Final[Mapping[str, type[Descriptor]]] = MappingProxyType(
    {
        "mastra_storage_adapters": StorageSpec,
        "mastra_pubsub_adapters": PubSubSpec,
        "mastra_lease_adapters": LeaseSpec,
        "mastra_processors": ProcessorSpec,
        "mastra_model_providers": ModelProviderSpec,
        "mastra_signal_providers": SignalProviderSpec,
        "mastra_http_routes": HttpRoutes,
        "mastra_cli_commands": CliCommand,
        "mastra_span_exporters": ExporterSpec,
        "mastra_wire_codecs": WireCodec,
        "mastra_doctor_checks": DoctorCheck,
    }
)


def _check_names(
    spec: Descriptor, member: str, names: Collection[str], form: re.Pattern[str]
) -> None:
    if not isinstance(names, tuple):
        raise _fault(spec, f"{member} is not a tuple")
    for name in names:
        if not isinstance(name, str) or not form.fullmatch(name):
            raise _fault(spec, f"{member} has {name!r}, which doesn't match {form.pattern}")
    if len(set(names)) != len(names):
        raise _fault(spec, f"{member} names something twice")


def _check_import(spec: Descriptor, member: str, value: object) -> None:
    if isinstance(value, str):
        if not _IMPORT_STRING.fullmatch(value):
            raise _fault(spec, f"{member} {value!r} is not of the form 'package.module:name'")
    elif not callable(value):
        raise _fault(spec, f"{member} is neither an import string nor callable")


def _fault(spec: Descriptor, what: str) -> ConfigError:
    return ConfigError(
        f"{type(spec).__name__} {spec.name!r} is not valid: {what}.",
        details={"descriptor": type(spec).__name__, "name": str(spec.name)},
    )
