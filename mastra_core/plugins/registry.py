"""Typed look-ups: who offers this scheme, processor, model prefix, command …?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from mastra_core.errors import (
    AdapterNotInstalledError,
    ConfigError,
    ModelNotFoundError,
    PluginError,
    UnknownSchemeError,
)
from mastra_core.plugins.catalog import (
    KnownAdapter,
    closest_scheme,
    known_adapter,
    known_schemes,
    scheme_prefix,
)
from mastra_core.plugins.choice import Offer, choose
from mastra_core.plugins.discovery import PROCESSOR_GROUP
from mastra_core.plugins.specs import (
    ERROR_SLOTS,
    INPUT_SLOTS,
    OUTPUT_SLOTS,
    AdapterSpec,
    CliCommand,
    Descriptor,
    DoctorCheck,
    ExporterSpec,
    HttpRoutes,
    LeaseSpec,
    ModelProviderSpec,
    Placed,
    ProcessorSpec,
    PubSubSpec,
    Role,
    SignalProviderSpec,
    StorageSpec,
    WireCodec,
)
from mastra_core.plugins.urls import AdapterUrl

if TYPE_CHECKING:
    from mastra_core.contracts.processor import Processor
    from mastra_core.contracts.tool import Tool
    from mastra_core.plugins.hookspecs import AgentInfo
    from mastra_core.plugins.manager import PluginManager
    from mastra_core.plugins.records import PluginRecord

__all__ = ("Registry",)

T = TypeVar("T", bound=Descriptor)

_ROLE_HOOKS: Final[Mapping[Role, tuple[str, type[AdapterSpec]]]] = MappingProxyType(
    {
        "storage": ("mastra_storage_adapters", StorageSpec),
        "pubsub": ("mastra_pubsub_adapters", PubSubSpec),
        "lease": ("mastra_lease_adapters", LeaseSpec),
    }
)

_SLOTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"input": INPUT_SLOTS, "output": OUTPUT_SLOTS, "error": ERROR_SLOTS}
)


class Registry:
    """What the plugins of one manager offer, by name."""

    def __init__(self, manager: PluginManager) -> None:
        self.manager = manager

    # Adapters -----------------------------------------------------------------------

    def adapter(self, role: Role, url: AdapterUrl) -> Offer[AdapterSpec]:
        """
        The adapter for a URL (order of design 4.4.4).

        Raises:
            AdapterNotInstalledError: The scheme is known, its package isn't there.
            PluginConflictError: Two plugins claim the scheme.
            PluginError: The plugin that has it is broken, incompatible or blocked.
            UnknownSchemeError: Nobody knows the scheme.
            ConfigError: The adapter doesn't have this role, or not this driver.
        """
        offer = self.find_adapter(role, url.scheme)
        if offer is None:
            raise self._missing(role, url)
        _check_driver(offer.spec, url)
        return offer

    def find_adapter(self, role: Role, scheme: str) -> Offer[AdapterSpec] | None:
        """
        The adapter of a role for a scheme; None if no usable plugin has it.

        Raises:
            PluginConflictError: Two plugins claim the scheme.
        """
        manager, prefer = self.manager, self.manager.options.prefer
        what = f"{role} scheme"
        manager.load_builtins()
        early = ("instance",) if scheme in prefer else ("instance", "builtin")
        loaded = [item for item in self.adapters(role) if item.record.origin in early]
        offer = choose(what, scheme, loaded, prefer)
        if offer is None:
            self._load_owners(scheme)
            offer = choose(what, scheme, self.adapters(role), prefer)
        if offer is None:
            manager.load_all()
            offer = choose(what, scheme, self.adapters(role), prefer)
        return offer

    def _load_owners(self, scheme: str) -> None:
        """Load the entry points that may claim a scheme, and no more than those."""
        preferred = self.manager.options.prefer.get(scheme)
        known = known_adapter(scheme)
        if preferred is not None:
            self.manager.load_of(preferred)
        elif known is not None and known.entry_point is not None:
            self.manager.load_named(known.entry_point)
            # We can't know which schemes the others claim; nobody wins silently.
            self.manager.load_uncatalogued()
        else:
            self.manager.load_all()

    def adapters(self, role: Role) -> tuple[Offer[AdapterSpec], ...]:
        """The adapters of a role that the plugins loaded so far offer."""
        hook, descriptor = _ROLE_HOOKS[role]
        return self._offers(hook, descriptor)

    def _missing(self, role: Role, url: AdapterUrl) -> Exception:
        """Why nobody has the scheme; all plugins are loaded by now."""
        known = known_adapter(url.scheme)
        offered = {
            item: offer.spec.name
            for item in _ROLE_HOOKS
            for offer in self.adapters(item)
            if url.scheme in offer.spec.schemes
        }
        if offered:
            return _role_not_offered(next(iter(offered.values())), offered, role)
        if (failed := self._failed_owner(url.scheme, known)) is not None:
            return failed
        if known is not None and role not in known.roles:
            return _role_not_offered(known.name, known.roles, role)
        if known is not None:
            return _not_installed(url.scheme, known, self.manager.records)
        more = [name for offer in self.adapters(role) for name in offer.spec.schemes]
        return UnknownSchemeError(
            role=role,
            scheme=url.scheme,
            url=url.redacted,
            suggestion=closest_scheme(url.scheme, role, more),
            known=known_schemes(role, more),
            hint=self._hint_at_failed(),
        )

    def _failed_owner(self, scheme: str, known: KnownAdapter | None) -> Exception | None:
        """The error of a plugin that was put aside and that the scheme belongs to."""
        for record in self.manager.records:
            owns = scheme in record.schemes or record.name == (
                known.entry_point if known else scheme
            )
            if owns and record.error is not None:
                return record.failure
        return None

    def _hint_at_failed(self) -> str | None:
        failed = [item.name for item in self.manager.records if item.state == "broken"]
        failed += [item.name for item in self.manager.records if item.state == "incompatible"]
        if not failed:
            return None
        return (
            f"These plugins were put aside and may have it: {', '.join(failed)}. "
            "Details: python -m mastra_core plugins"
        )

    # Processors ---------------------------------------------------------------------

    def processors(self) -> tuple[Offer[ProcessorSpec], ...]:
        """All processors that configuration can name; the short form included."""
        self.manager.load_all()
        return (
            *self._offers("mastra_processors", ProcessorSpec),
            *(
                Offer(spec=spec, record=record)
                for record in self.manager.records
                if (spec := self._short_form(record)) is not None
            ),
        )

    def _short_form(self, record: PluginRecord) -> ProcessorSpec | None:
        candidate = record.candidate
        if candidate is None or candidate.group != PROCESSOR_GROUP or record.error is not None:
            return None
        try:
            return ProcessorSpec(
                name=candidate.name, factory=candidate.value, summary=record.summary
            )
        except ConfigError as error:
            self.manager.put_aside(record, error)
            return None

    def processor(self, name: str) -> Offer[ProcessorSpec]:
        """
        The processor of this name.

        Raises:
            ConfigError: Nobody offers it.
            PluginConflictError: Two plugins offer it.
            PluginError: The plugin that has it was put aside.
        """
        return self._named("processor", name, self.processors())

    def placed(
        self,
        phase: Literal["input", "output", "error"],
        *,
        agent: AgentInfo,
        request_context: Mapping[str, Any],
        configured: Sequence[Processor],
    ) -> tuple[Placed, ...]:
        """
        What plugins add to a list of an agent, by slot, order, and order of the plugins.

        The agent keeps the answer per request context; it isn't cached here.
        """
        found = self.manager.collect(
            f"mastra_{phase}_processors",
            Placed,
            agent=agent,
            request_context=request_context,
            configured=configured,
        )
        slots = _SLOTS[phase]
        for item in found:
            if item.slot not in slots:
                raise ConfigError(
                    f"Slot {item.slot!r} of processor {item.processor.id!r} is not one of the "
                    f"{phase} slots: {', '.join(slots)}."
                )
        return tuple(sorted(found, key=lambda item: (slots.index(item.slot), item.order)))

    # The rest -----------------------------------------------------------------------

    def model_provider(self, prefix: str) -> Offer[ModelProviderSpec]:
        """
        Who has the models ``<prefix>/…``.

        Raises:
            ModelNotFoundError: Nobody.
            PluginConflictError: Two plugins claim the prefix.
        """
        offers = self.model_providers()
        offer = choose("model prefix", prefix, offers, self.manager.options.prefer)
        if offer is None:
            known = sorted({name for item in offers for name in item.spec.all_prefixes})
            raise ModelNotFoundError(_unknown("model provider", prefix, known))
        return offer

    def model_providers(self) -> tuple[Offer[ModelProviderSpec], ...]:
        """All providers of models."""
        return self._all("mastra_model_providers", ModelProviderSpec)

    def signal_provider(self, name: str) -> Offer[SignalProviderSpec]:
        """
        The source of signals of this name.

        Raises:
            ConfigError: Nobody offers it.
        """
        offers = self._all("mastra_signal_providers", SignalProviderSpec)
        return self._named("signal provider", name, offers)

    def agent_tools(
        self, *, agent: AgentInfo, request_context: Mapping[str, Any]
    ) -> tuple[Tool, ...]:
        """The tools that plugins add to an agent."""
        from mastra_core.contracts.tool import Tool

        return self.manager.collect(
            "mastra_agent_tools",
            Tool,  # type: ignore[type-abstract]  # only used for isinstance
            agent=agent,
            request_context=request_context,
        )

    def http_routes(self) -> tuple[Offer[HttpRoutes], ...]:
        """Routes for the HTTP server."""
        return self._all("mastra_http_routes", HttpRoutes)

    def cli_commands(self) -> tuple[Offer[CliCommand], ...]:
        """Commands for ``mastra-py``."""
        return self._all("mastra_cli_commands", CliCommand)

    def span_exporters(self) -> tuple[Offer[ExporterSpec], ...]:
        """Places where spans can go."""
        return self._all("mastra_span_exporters", ExporterSpec)

    def wire_codecs(self) -> tuple[Offer[WireCodec], ...]:
        """Classes that tagged values know."""
        return self._all("mastra_wire_codecs", WireCodec)

    def doctor_checks(self) -> tuple[Offer[DoctorCheck], ...]:
        """Checks of ``doctor``."""
        return self._all("mastra_doctor_checks", DoctorCheck)

    def _all(self, hook: str, descriptor: type[T]) -> tuple[Offer[T], ...]:
        self.manager.load_all()
        return self._offers(hook, descriptor)

    def _offers(self, hook: str, descriptor: type[T]) -> tuple[Offer[T], ...]:
        return tuple(
            Offer(spec=spec, record=record)
            for record, spec in self.manager.offers(hook, descriptor)
        )

    def _named(self, what: str, name: str, offers: Sequence[Offer[T]]) -> Offer[T]:
        offer = choose(what, name, offers, self.manager.options.prefer)
        if offer is not None:
            return offer
        if (failed := self._failed_owner(name, None)) is not None:
            raise failed
        known = sorted({item.spec.name for item in offers})
        raise ConfigError(_unknown(what, name, known), hint=self._hint_at_failed())


def _check_driver(spec: AdapterSpec, url: AdapterUrl) -> None:
    if url.driver is None or url.driver in spec.drivers:
        return
    known = ", ".join(spec.drivers) or "none"
    raise ConfigError(
        f"Adapter {spec.name!r} has no driver {url.driver!r}, as {url.redacted!r} asks for. "
        f"Known: {known}."
    )


def _role_not_offered(name: str, offered: Iterable[str], role: Role) -> ConfigError:
    return ConfigError(f"Adapter {name!r} offers {' and '.join(offered)}, but no {role}.")


def _not_installed(
    scheme: str, known: KnownAdapter, records: Iterable[PluginRecord]
) -> PluginError:
    if known.extra is None:
        return PluginError(
            f"The adapter for '{scheme_prefix(scheme)}' belongs to mastra-core, "
            "but this plugin manager wasn't given it."
        )
    for record in records:
        if record.name == known.entry_point and record.is_usable:
            return PluginError(
                f"Plugin {record.name!r} ({record.label} {record.version}) is installed, "
                f"but offers nothing for '{scheme_prefix(scheme)}'."
            )
    return AdapterNotInstalledError(
        f"No adapter for '{scheme_prefix(scheme)}' is installed. "
        f"Install it with: pip install 'mastra-core[{known.extra}]'",
        scheme=scheme,
        extra=known.extra,
    )


def _unknown(what: str, name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    text = f"Unknown {what} {name!r}."
    if close:
        text += f" Did you mean {close[0]!r}?"
    return f"{text} Known: {', '.join(known) or 'none'}."
