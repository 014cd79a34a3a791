"""
The hooks: what a plugin may implement.

Every hook has a policy, which says how its implementations are called and what happens if
one fails; see ``calls``. Arguments may be added to a hook later, never renamed; an
implementation names only the arguments that it wants.

Hooks that collect are plain functions without I/O. They yield descriptors; the work is done
by what the descriptors name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from mastra_core.plugins.markers import hookspec

if TYPE_CHECKING:
    from mastra_core.contracts.processor import Processor
    from mastra_core.contracts.tool import Tool
    from mastra_core.plugins.context import AdapterContext
    from mastra_core.plugins.specs import (
        CliCommand,
        DoctorCheck,
        ExporterSpec,
        HttpRoutes,
        LeaseSpec,
        ModelProviderSpec,
        Placed,
        ProcessorSpec,
        PubSubSpec,
        SignalProviderSpec,
        StorageSpec,
        WireCodec,
    )

__all__ = (
    "AgentInfo",
    "HookRegistrar",
    "RunInfo",
    "mastra_addhooks",
    "mastra_agent_tools",
    "mastra_authorize_peer",
    "mastra_cli_commands",
    "mastra_create_processor",
    "mastra_doctor_checks",
    "mastra_error_processors",
    "mastra_finalize_processors",
    "mastra_http_routes",
    "mastra_input_processors",
    "mastra_lease_adapters",
    "mastra_model_providers",
    "mastra_output_processors",
    "mastra_peer_directory",
    "mastra_peer_event",
    "mastra_peer_sources",
    "mastra_processor_call",
    "mastra_processor_error",
    "mastra_processor_violation",
    "mastra_processors",
    "mastra_pubsub_adapters",
    "mastra_shutdown",
    "mastra_signal_providers",
    "mastra_span_exporters",
    "mastra_startup",
    "mastra_storage_adapters",
    "mastra_wire_codecs",
)


class AgentInfo(Protocol):
    """What hooks may rely on about an agent."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...


class RunInfo(Protocol):
    """What hooks may rely on about a run."""

    @property
    def run_id(self) -> str: ...


class HookRegistrar(Protocol):
    """What ``mastra_addhooks`` gets."""

    def add_hookspecs(self, definitions: ModuleType | type) -> None:
        """Add the marked functions of a module or class to the hooks of this host."""
        ...


# Adapters ------------------------------------------------------------------------------


@hookspec(policy="collect")
def mastra_storage_adapters() -> Iterable[StorageSpec]:
    """
    Offer storage adapters.

    Example::

        from mastra_core.plugins import StorageSpec, hookimpl

        @hookimpl
        def mastra_storage_adapters():
            yield StorageSpec(
                name="acme",
                schemes=("acme",),
                factory="mastra_acme.storage:AcmeStorage",
                settings="mastra_acme.settings:AcmeSettings",
                capabilities=frozenset({"memory", "workflows", "memory.copy_thread"}),
                summary="Threads and snapshots in AcmeDB.",
            )
    """
    return ()


@hookspec(policy="collect")
def mastra_pubsub_adapters() -> Iterable[PubSubSpec]:
    """
    Offer pubsub adapters.

    Example::

        from mastra_core.contracts.pubsub import PubSubCapabilities
        from mastra_core.plugins import PubSubSpec, hookimpl

        @hookimpl
        def mastra_pubsub_adapters():
            yield PubSubSpec(
                name="acme",
                schemes=("acme",),
                factory="mastra_acme.pubsub:AcmePubSub",
                settings="mastra_acme.settings:AcmeSettings",
                capabilities=PubSubCapabilities(durable=True, cross_process=True),
            )
    """
    return ()


@hookspec(policy="collect")
def mastra_lease_adapters() -> Iterable[LeaseSpec]:
    """
    Offer lease adapters.

    Example::

        from mastra_core.contracts.lease import LeaseCapabilities
        from mastra_core.plugins import LeaseSpec, hookimpl

        @hookimpl
        def mastra_lease_adapters():
            yield LeaseSpec(
                name="acme",
                schemes=("acme",),
                factory="mastra_acme.lease:AcmeLease",
                settings="mastra_acme.settings:AcmeSettings",
                capabilities=LeaseCapabilities(cross_process=True, cross_host=True),
            )
    """
    return ()


# Processors ----------------------------------------------------------------------------


@hookspec(policy="collect")
def mastra_processors() -> Iterable[ProcessorSpec]:
    """
    Offer processors that configuration can name.

    Example::

        from mastra_core.plugins import ProcessorSpec, hookimpl

        @hookimpl
        def mastra_processors():
            yield ProcessorSpec(
                name="regex-filter",
                factory="mastra_acme.regex_filter:make_filter",
                settings="mastra_acme.regex_filter:FilterOptions",
                phases=frozenset({"process_input", "process_output_result"}),
            )
    """
    return ()


@hookspec(policy="decide")
def mastra_create_processor(
    processor_id: str, options: Mapping[str, Any], context: AdapterContext
) -> Processor | None:
    """
    Make a processor from configuration, before the descriptors are asked.

    The first answer that isn't None is used; implementations marked ``tryfirst`` are asked
    first.

    Example::

        from mastra_core.plugins import hookimpl
        from mastra_acme.quiet import QuietModeration

        @hookimpl(tryfirst=True)
        def mastra_create_processor(processor_id, options):
            return QuietModeration(**options) if processor_id == "moderation" else None
    """
    return None


@hookspec(policy="collect")
def mastra_input_processors(
    agent: AgentInfo,
    request_context: Mapping[str, Any],
    configured: Sequence[Processor],
) -> Iterable[Placed]:
    """
    Add input processors to an agent; ``configured`` is the agent's own list.

    Example::

        from mastra_core.plugins import Placed, hookimpl
        from mastra_acme.audit import Audit

        @hookimpl
        def mastra_input_processors(agent):
            yield Placed(processor=Audit(agent.id), slot="user", order=-1)
    """
    return ()


@hookspec(policy="collect")
def mastra_output_processors(
    agent: AgentInfo,
    request_context: Mapping[str, Any],
    configured: Sequence[Processor],
) -> Iterable[Placed]:
    """
    Add output processors to an agent; ``configured`` is the agent's own list.

    Example::

        from mastra_core.plugins import Placed, hookimpl
        from mastra_acme.scrub import Scrub

        @hookimpl
        def mastra_output_processors(request_context):
            if request_context.get("tenant") == "acme":
                yield Placed(processor=Scrub(), slot="user", order=1)
    """
    return ()


@hookspec(policy="collect")
def mastra_error_processors(
    agent: AgentInfo,
    request_context: Mapping[str, Any],
    configured: Sequence[Processor],
) -> Iterable[Placed]:
    """
    Add error processors to an agent; ``configured`` is the agent's own list.

    Example::

        from mastra_core.plugins import Placed, hookimpl
        from mastra_acme.retry import RetryQuota

        @hookimpl
        def mastra_error_processors():
            yield Placed(processor=RetryQuota())
    """
    return ()


@hookspec(policy="decide")
def mastra_finalize_processors(
    phase: Literal["input", "output", "error"],
    processors: Sequence[Processor],
    agent: AgentInfo,
    request_context: Mapping[str, Any],
) -> list[Processor] | None:
    """
    Have the last word on a list of processors; None leaves it as it is.

    Example::

        from mastra_core.plugins import hookimpl

        @hookimpl
        def mastra_finalize_processors(phase, processors):
            if phase != "output":
                return None
            return [item for item in processors if item.id != "moderation"]
    """
    return None


@hookspec(policy="observe")
def mastra_processor_error(
    processor: Processor, phase: str, error: BaseException, run: RunInfo
) -> None:
    """
    Learn that a processor raised.

    Example::

        from mastra_core.plugins import hookimpl
        from mastra_acme.metrics import errors

        @hookimpl
        def mastra_processor_error(processor, phase):
            errors.labels(processor.id, phase).inc()
    """


@hookspec(policy="observe")
def mastra_processor_violation(
    processor: Processor, violation: Mapping[str, Any], run: RunInfo
) -> None:
    """
    Learn that a processor aborted or warned; ``violation`` has processorId, message, detail.

    Example::

        from mastra_core.plugins import hookimpl
        from mastra_acme.audit import log

        @hookimpl
        def mastra_processor_violation(violation, run):
            log.write(run.run_id, violation["message"])
    """


@hookspec(policy="observe")
def mastra_processor_call(
    processor: Processor, phase: str, run: RunInfo
) -> AbstractAsyncContextManager[Any] | None:
    """
    Stand around one awaited call of a processor, for tracing or timing.

    Return an async context manager, or be a wrapper that yields once. It can't change the
    result or the exception of the call. Not used for single chunks.

    Example::

        from contextlib import asynccontextmanager

        from mastra_core.plugins import hookimpl
        from mastra_acme.tracing import span

        @hookimpl
        @asynccontextmanager
        async def mastra_processor_call(processor, phase):
            with span(f"{processor.id}.{phase}"):
                yield
    """
    return None


# Models, tools, signals ----------------------------------------------------------------


@hookspec(policy="collect")
def mastra_model_providers() -> Iterable[ModelProviderSpec]:
    """
    Offer the models whose names start with a prefix.

    Example::

        from mastra_core.plugins import ModelProviderSpec, hookimpl

        @hookimpl
        def mastra_model_providers():
            yield ModelProviderSpec(name="acme", factory="mastra_acme.models:make_model")
    """
    return ()


@hookspec(policy="collect")
def mastra_agent_tools(agent: AgentInfo, request_context: Mapping[str, Any]) -> Iterable[Tool]:
    """
    Add tools to an agent; its own win over those of equal names.

    Example::

        from mastra_core.plugins import hookimpl
        from mastra_acme.tools import search_tool

        @hookimpl
        def mastra_agent_tools(agent):
            if agent.id == "researcher":
                yield search_tool
    """
    return ()


@hookspec(policy="collect")
def mastra_signal_providers() -> Iterable[SignalProviderSpec]:
    """
    Offer sources of signals.

    Example::

        from mastra_core.plugins import SignalProviderSpec, hookimpl

        @hookimpl
        def mastra_signal_providers():
            yield SignalProviderSpec(name="acme", factory="mastra_acme.signals:make_provider")
    """
    return ()


# Server, command line, telemetry, wire, checks -----------------------------------------


@hookspec(policy="collect")
def mastra_http_routes() -> Iterable[HttpRoutes]:
    """
    Add routes to the HTTP server.

    Example::

        from mastra_core.plugins import HttpRoutes, hookimpl

        @hookimpl
        def mastra_http_routes():
            yield HttpRoutes(
                name="acme",
                prefix="/acme",
                factory="mastra_acme.http:make_app",
                scopes=frozenset({"agents:read"}),
            )
    """
    return ()


@hookspec(policy="collect")
def mastra_cli_commands() -> Iterable[CliCommand]:
    """
    Add commands to ``mastra-py``.

    Example::

        from mastra_core.plugins import CliCommand, hookimpl

        @hookimpl
        def mastra_cli_commands():
            yield CliCommand(
                name="acme", help="Look into AcmeDB.", factory="mastra_acme.cli:app"
            )
    """
    return ()


@hookspec(policy="collect")
def mastra_span_exporters() -> Iterable[ExporterSpec]:
    """
    Offer places where spans can go.

    Example::

        from mastra_core.plugins import ExporterSpec, hookimpl

        @hookimpl
        def mastra_span_exporters():
            yield ExporterSpec(name="acme", factory="mastra_acme.spans:make_exporter")
    """
    return ()


@hookspec(policy="collect")
def mastra_wire_codecs() -> Iterable[WireCodec]:
    """
    Teach tagged values a class of yours.

    Example::

        from mastra_core.plugins import WireCodec, hookimpl
        from mastra_acme.money import Money

        @hookimpl
        def mastra_wire_codecs():
            yield WireCodec(
                name="money",
                tag="Money",
                type=Money,
                encode=lambda value: {"amount": str(value.amount)},
                decode=lambda data: Money(data["amount"]),
            )
    """
    return ()


@hookspec(policy="collect")
def mastra_doctor_checks() -> Iterable[DoctorCheck]:
    """
    Add checks to ``doctor``.

    Example::

        from mastra_core.plugins import DoctorCheck, hookimpl

        @hookimpl
        def mastra_doctor_checks():
            yield DoctorCheck(name="acme-disk", factory="mastra_acme.checks:check_disk")
    """
    return ()


# Life cycle ----------------------------------------------------------------------------


@hookspec(policy="gather")
def mastra_startup(mastra: Any) -> Awaitable[None] | None:
    """
    Start what the plugin runs; may be ``async def``; has ten seconds.

    Example::

        from mastra_core.plugins import hookimpl

        class Heart:
            @hookimpl
            async def mastra_startup(self, mastra):
                self.connection = await connect()

            @hookimpl
            async def mastra_shutdown(self):
                await self.connection.close()
    """
    return None


@hookspec(policy="gather")
def mastra_shutdown(mastra: Any) -> Awaitable[None] | None:
    """
    Stop it again; called last started first, only if its start succeeded.

    Example::

        from mastra_core.plugins import hookimpl

        class Heart:
            @hookimpl
            async def mastra_shutdown(self, mastra):
                await self.connection.close()
    """
    return None


# Peers (cross_agent.md 11) -------------------------------------------------------------


@hookspec(policy="collect")
def mastra_peer_sources(context: Any) -> Iterable[Any]:
    """
    Offer further sources for the discovery of peers.

    Example::

        from mastra_core.plugins import hookimpl
        from mastra_acme.peers import DnsPeers

        @hookimpl
        def mastra_peer_sources(context):
            yield DnsPeers("_mastra._tcp.example")
    """
    return ()


@hookspec(policy="decide")
def mastra_peer_directory() -> Any:
    """
    Offer durable presence of peers, for buses with poor fan-out; None to pass.

    Example::

        from mastra_core.plugins import hookimpl
        from mastra_acme.peers import Directory

        @hookimpl
        def mastra_peer_directory():
            return Directory()
    """
    return None


@hookspec(policy="permit")
def mastra_authorize_peer(
    event: Mapping[str, Any], claim: Mapping[str, Any]
) -> bool | Awaitable[bool | None] | None:
    """
    Let an inbound discovery or wake pass: True or None; anything else refuses it.

    An exception, or no answer within two seconds, refuses it, too.

    Example::

        from mastra_core.plugins import hookimpl

        @hookimpl
        def mastra_authorize_peer(claim):
            return claim.get("tenant") == "acme"
    """
    return None


@hookspec(policy="observe")
def mastra_peer_event(kind: str, data: Mapping[str, Any]) -> None:
    """
    Learn what happens between peers: advertised, claimed, yielded, lost, sent …

    Example::

        from mastra_core.plugins import hookimpl
        from mastra_acme.metrics import peer_events

        @hookimpl
        def mastra_peer_event(kind):
            peer_events.labels(kind).inc()
    """


# Meta ----------------------------------------------------------------------------------


@hookspec(policy="collect", historic=True)
def mastra_addhooks(manager: HookRegistrar) -> None:
    """
    Define hooks that other plugins may implement; called before any of them is judged.

    Example::

        from mastra_core.plugins import hookimpl
        from mastra_acme import hooks  # functions marked with hookspec(policy="observe")

        @hookimpl
        def mastra_addhooks(manager):
            manager.add_hookspecs(hooks)
    """
