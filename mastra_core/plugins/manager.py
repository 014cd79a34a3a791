"""Loading plugins, keeping broken ones apart, and calling hooks.

One manager belongs to one ``Mastra`` object. Nothing is imported before somebody asks: a
known scheme imports one entry point, everything else imports all of them once.
"""

from __future__ import annotations

import inspect
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from mastra_core.errors import AdapterNotInstalledError, PluginError, PluginWarning
from mastra_core.plugins.calls import CONTAINED, HookCalls, collect_items
from mastra_core.plugins.catalog import CATALOG, CATALOG_PLUGINS
from mastra_core.plugins.choice import conflicts_of
from mastra_core.plugins.discovery import PROCESSOR_GROUP, Candidate, scan_entry_points
from mastra_core.plugins.loading import PluginHost, import_record
from mastra_core.plugins.options import PluginOptions
from mastra_core.plugins.records import Implementation, PluginRecord
from mastra_core.plugins.specs import DESCRIPTORS
from mastra_core.plugins.status import PluginState, PluginStatus
from mastra_core.plugins.versions import host_version

if TYPE_CHECKING:
    from mastra_core.contracts.processor import Processor
    from mastra_core.plugins.hookspecs import RunInfo

__all__ = ("PluginManager",)

logger = logging.getLogger(__name__)

T = TypeVar("T")


class PluginManager:
    """
    The plugins of one ``Mastra`` object.

    Args:
        plugins: Modules, objects, import strings or names of entry points. They come
            first, and a failure of one of them is raised.
        builtins: Import strings of the core's own plugin modules; one that doesn't exist
            is left out.
        options: What may be used; None reads the environment.
        scan: Finds entry points; for tests.

    Raises:
        PluginError: One of ``plugins`` can't be used.
    """

    def __init__(
        self,
        plugins: Iterable[object] = (),
        *,
        builtins: Sequence[str] = (),
        options: PluginOptions | None = None,
        scan: Callable[[], Sequence[Candidate]] = scan_entry_points,
    ) -> None:
        self.options: PluginOptions = (
            options if options is not None else PluginOptions.from_environ(os.environ)
        )
        self._scan = scan
        self._calls = HookCalls(
            trace=self.options.trace, observer_failures=self.options.observer_failures
        )
        self._records: list[PluginRecord] = []
        self._host: PluginHost | None = None
        self._is_scanned = False
        self._is_complete = False
        self._implementations: dict[str, tuple[Implementation, ...]] = {}
        #: Authorisation hooks of plugins that were put aside: they refuse for ever.
        self._closed_hooks: dict[str, str] = {}
        self._started: list[PluginRecord] = []
        for source in builtins:
            self._add_builtin(source)
        self._load([record for plugin in plugins if (record := self._add_given(plugin))])

    # Finding ------------------------------------------------------------------------

    def _add_builtin(self, source: str) -> None:
        module = source.partition(":")[0]
        name = module.removesuffix(".plugin").rpartition(".")[2]
        record = PluginRecord(
            name=name,
            origin="builtin",
            distribution="mastra-core",
            summary="Works without any server.",
            source=source,
            position=len(self._records),
        )
        if by := self.options.blocked_by((name,), listed=False):
            record.block(by)
        self._records.append(record)

    def _add_given(self, plugin: object) -> PluginRecord | None:
        """A record for what the user handed in; None if it is there already."""
        if isinstance(plugin, str) and not {".", ":"} & set(plugin):
            return self._named_by_user(plugin)
        if isinstance(plugin, str):
            record = PluginRecord(name=plugin, origin="instance", explicit=True, source=plugin)
        else:
            if any(record.plugin is plugin for record in self._records):
                return None
            record = PluginRecord(
                name=_name_of(plugin), origin="instance", explicit=True, plugin=plugin
            )
        record.position = len(self._records)
        self._records.append(record)
        return record

    def _named_by_user(self, name: str) -> PluginRecord:
        self._find_entry_points()
        for record in self._records:
            if record.origin == "entry_point" and record.name == name:
                if record.state == "blocked":
                    raise record.failure
                record.explicit = True
                return record
        raise _no_such_plugin(name, [item.name for item in self._records])

    def _find_entry_points(self) -> None:
        if self._is_scanned:
            return
        self._is_scanned = True
        for position, candidate in enumerate(self._scan()):
            record = PluginRecord(
                name=candidate.name,
                origin="entry_point",
                distribution=candidate.distribution,
                version=candidate.version,
                summary=candidate.summary,
                candidate=candidate,
                position=position,
            )
            if by := self.options.blocked_by(record.names):
                record.block(by)
            self._records.append(record)

    # Loading ------------------------------------------------------------------------

    def load_all(self) -> None:
        """
        Import every plugin that isn't blocked; does nothing the second time.

        Raises:
            PluginError: One is broken or incompatible, in strict mode.
        """
        if self._is_complete:
            return
        self._find_entry_points()
        self._is_complete = True
        self._load([record for record in self._records if _is_waiting(record)])

    def load_builtins(self) -> None:
        """Import the core's own plugins."""
        self._load([item for item in self._records if item.origin == "builtin"])

    def load_named(self, name: str) -> None:
        """Import the entry points of this name."""
        self._find_entry_points()
        self._load([item for item in self._entry_points() if item.name == name])

    def load_of(self, owner: str) -> None:
        """Import the entry points of this plugin or distribution."""
        self._find_entry_points()
        self._load([item for item in self._entry_points() if owner in item.names])

    def load_uncatalogued(self) -> None:
        """Import the entry points that may claim anything, as we don't know them."""
        self._find_entry_points()
        self._load(
            [
                item
                for item in self._entry_points()
                if CATALOG_PLUGINS.get(item.name) != item.distribution
            ]
        )

    def _entry_points(self) -> Iterable[PluginRecord]:
        return (item for item in self._records if item.origin == "entry_point")

    def _load(self, records: Sequence[PluginRecord]) -> None:
        """Import and register; plugins that define hooks are heard before any is judged."""
        batch = [record for record in records if _is_waiting(record)]
        if not batch:
            return
        host = self._pluggy_host()
        for record in batch:
            self._import(host, record)
        if not self._is_complete and any(host.has_unknown_hooks(record) for record in batch):
            # Another plugin, not imported yet, may define them.
            self._find_entry_points()
            self._is_complete = True
            rest = [item for item in self._records if _is_waiting(item) and item not in batch]
            for record in rest:
                self._import(host, record)
            batch += rest
        for record in batch:
            host.register(record)
        self._implementations.clear()
        self._report([item for item in batch if item.error is not None])

    def _import(self, host: PluginHost, record: PluginRecord) -> None:
        if record.origin == "builtin" and not _exists(record):
            self._drop(record)
            return
        import_record(record)
        twin = self._twin_of(record)
        if twin is not None:
            twin.distribution, twin.version = record.distribution, record.version
            self._drop(record)
            return
        host.read(record)

    def _drop(self, record: PluginRecord) -> None:
        record.state = "dropped"
        self._records.remove(record)

    def _twin_of(self, record: PluginRecord) -> PluginRecord | None:
        """The record under which the same module was handed in already."""
        if record.plugin is None:
            return None
        for other in self._records:
            if other is not record and other.plugin is record.plugin:
                return other
        return None

    def _pluggy_host(self) -> PluginHost:
        if self._host is None:
            self._host = PluginHost()
        return self._host

    def _report(self, failed: Sequence[PluginRecord]) -> None:
        """Raise what must be raised; else one warning for each."""
        fatal = [item for item in failed if item.explicit or self.options.strict]
        for record in failed:
            logger.debug(
                "plugin put aside",
                extra={"plugin": record.name, "status": record.state, "reason": record.reason},
                exc_info=record.failure.__cause__,
            )
        for record in failed:
            if record not in fatal:
                warnings.warn(str(record.error), PluginWarning, stacklevel=2)
        if fatal:
            raise fatal[0].failure

    def put_aside(self, record: PluginRecord, error: BaseException) -> None:
        """
        Stop using a plugin because of what it raised outside of a hook.

        Raises:
            PluginBrokenError: The user named the plugin, or in strict mode.
        """
        self._quarantine(record, error)
        self._report([record])

    def _quarantine(self, record: PluginRecord, error: BaseException) -> None:
        """Put an active plugin aside because one of its hooks failed."""
        host = self._pluggy_host()
        for hook in record.hooks:
            if host.policy(hook) == "permit":
                self._closed_hooks[hook] = record.name
        host.unregister(record)
        record.break_off(error)
        self._implementations.clear()

    # Definitions --------------------------------------------------------------------

    def add_hookspecs(self, definitions: ModuleType | type) -> None:
        """Define further hooks, before any plugin that implements them is loaded."""
        self._pluggy_host().add_hookspecs(definitions)
        self._implementations.clear()

    def _for_hook(self, hook: str, policy: str) -> tuple[Implementation, ...]:
        """All implementations of a hook, after loading every plugin."""
        host = self._pluggy_host()
        self.load_all()
        if host.policy(hook) != policy:
            raise PluginError(f"There is no hook {hook!r} of the kind {policy!r}.")
        found = self._implementations.get(hook)
        if found is None:
            active = tuple(record for record in self._records if record.is_usable)
            found = self._implementations[hook] = host.implementations(hook, active)
        return found

    # Calling ------------------------------------------------------------------------

    def offers(self, hook: str, item_type: type[T]) -> tuple[tuple[PluginRecord, T], ...]:
        """What the plugins loaded so far offer; each is asked once and its answer kept."""
        host = self._pluggy_host()
        failed: list[PluginRecord] = []
        found: list[tuple[PluginRecord, T]] = []
        for record in self.records:
            if not record.is_usable or hook not in record.hooks:
                continue
            if hook not in record.offers:
                items = self._ask(host.implementations(hook, (record,)), {}, item_type)
                if items is None:
                    failed.append(record)
                    continue
                record.offers[hook] = items
            found += [(record, item) for item in record.offers[hook]]  # type: ignore[misc]  # collect_items checked the type
        self._report(failed)
        return tuple(found)

    def collect(self, hook: str, item_type: type[T], /, **arguments: Any) -> tuple[T, ...]:
        """
        What all plugins yield for these arguments, in the order of the plugins.

        Raises:
            PluginBrokenError: A plugin that the user named failed, or any in strict mode.
        """
        if not arguments:
            self._for_hook(hook, "collect")
            return tuple(item for _, item in self.offers(hook, item_type))
        found: list[T] = []
        failed: list[PluginRecord] = []
        for implementation in self._for_hook(hook, "collect"):
            items = self._ask((implementation,), arguments, item_type)
            if items is None:
                failed.append(implementation.record)
            else:
                found += items  # type: ignore[arg-type]  # collect_items checked the type
        self._report(failed)
        return tuple(found)

    def _ask(
        self,
        implementations: Sequence[Implementation],
        arguments: dict[str, Any],
        item_type: type,
    ) -> tuple[object, ...] | None:
        """The items of one plugin; None if it failed and was put aside."""
        items: tuple[object, ...] = ()
        for implementation in implementations:
            self._calls.note(implementation)
            try:
                items += collect_items(implementation, arguments, item_type)
            except CONTAINED as error:
                self._quarantine(implementation.record, error)
                return None
        return items

    def decide(self, hook: str, /, **arguments: Any) -> Any:
        """The first answer that isn't None; None if nobody has one."""
        return self._calls.decide(self._for_hook(hook, "decide"), arguments)

    def observe(self, hook: str, /, **arguments: Any) -> None:
        """Tell all observers; never raises."""
        self._calls.observe(self._for_hook(hook, "observe"), arguments)

    async def permit(self, hook: str, /, **arguments: Any) -> bool:
        """
        True only if every implementation answers True or None in time.

        A plugin that was put aside after it had registered the hook refuses for ever.
        """
        implementations = self._for_hook(hook, "permit")
        if hook in self._closed_hooks:
            logger.warning(
                "authorisation hook of a broken plugin refused",
                extra={"hook": hook, "plugin": self._closed_hooks[hook]},
            )
            return False
        return await self._calls.permit(
            implementations, arguments, deadline=self.options.permit_deadline
        )

    def processor_call(
        self, processor: Processor, phase: str, run: RunInfo
    ) -> AbstractAsyncContextManager[None]:
        """What plugins put around one awaited call of a processor."""
        arguments: dict[str, Any] = {"processor": processor, "phase": phase, "run": run}
        implementations = self._for_hook("mastra_processor_call", "observe")
        return self._calls.stand_around(implementations, arguments)

    # Life cycle ---------------------------------------------------------------------

    async def startup(self, mastra: object) -> None:
        """
        Start all plugins together; in strict mode, ask them first for all that they offer.

        Raises:
            PluginBrokenError: A plugin that the user named failed, or any in strict mode.
                ``shutdown`` then stops those that did start.
        """
        if self.options.strict:
            self.status()
        implementations = self._for_hook("mastra_startup", "gather")
        outcome = await self._calls.gather(
            implementations, {"mastra": mastra}, deadline=self.options.start_deadline
        )
        failed: list[PluginRecord] = []
        for implementation, error in outcome.items():
            if error is not None:
                self._quarantine(implementation.record, error)
                failed.append(implementation.record)
        for record in self.records:
            record.started = record.is_usable
        self._report(failed)

    async def shutdown(self, mastra: object) -> None:
        """Stop what was started, last first; failures are logged."""
        implementations = [
            item for item in self._for_hook("mastra_shutdown", "gather") if item.record.started
        ]
        for item in implementations:
            item.record.started = False
        outcome = await self._calls.gather(
            implementations[::-1], {"mastra": mastra}, deadline=self.options.stop_deadline
        )
        for implementation, error in outcome.items():
            if error is not None:
                logger.error(
                    "plugin did not stop cleanly",
                    extra={"plugin": implementation.record.name},
                    exc_info=error,
                )

    # Looking ------------------------------------------------------------------------

    @property
    def records(self) -> tuple[PluginRecord, ...]:
        """Every plugin found so far, handed-in ones first."""
        return tuple(sorted(self._records, key=lambda record: record.rank))

    def schemes(self) -> frozenset[str]:
        """Schemes that the plugins loaded so far named."""
        return frozenset(name for record in self._records for name in record.schemes)

    def status(self) -> tuple[PluginStatus, ...]:
        """What became of each plugin; loads all of them and asks them what they offer."""
        self.load_all()
        for hook, descriptor in DESCRIPTORS.items():
            self.offers(hook, descriptor)
        conflicts = conflicts_of(self.records, self.options.prefer)
        return tuple(_status_of(item, conflicts.get(item, ())) for item in self.records)


def _status_of(record: PluginRecord, conflicts: Sequence[str]) -> PluginStatus:
    notes = [record.reason, *conflicts] if record.reason else [*conflicts]
    return PluginStatus(
        name=record.name,
        distribution=record.distribution,
        version=host_version() if record.origin == "builtin" else record.version,
        status=_shown_state(record, conflicts),
        reason="; ".join(notes),
        hooks=record.hooks,
        schemes=tuple(sorted(record.schemes)),
        summary=record.summary,
        origin=record.origin,
    )


def _shown_state(record: PluginRecord, conflicts: Sequence[str]) -> PluginState:
    match record.state:
        case "blocked" | "broken" | "incompatible":
            return record.state
        case _:
            # The short form of processors stays ``found`` until it is used.
            return "conflict" if conflicts else "active"


def _is_waiting(record: PluginRecord) -> bool:
    """True for plugins to import; the short form of processors is imported when used."""
    short_form = record.candidate is not None and record.candidate.group == PROCESSOR_GROUP
    return record.state == "found" and not short_form


def _exists(record: PluginRecord) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec((record.source or "").partition(":")[0]) is not None
    except ModuleNotFoundError:
        return False


def _name_of(plugin: object) -> str:
    """How people know a plugin that was handed in: its module or class."""
    if inspect.ismodule(plugin) or inspect.isclass(plugin):
        return plugin.__name__
    return type(plugin).__name__


def _no_such_plugin(name: str, known: Sequence[str]) -> PluginError:
    extras = {item.entry_point: item.extra for item in CATALOG if item.entry_point}
    if name in CATALOG_PLUGINS:
        extra = extras.get(name) or CATALOG_PLUGINS[name].removeprefix("mastra-")
        return AdapterNotInstalledError(
            f"No plugin {name!r} is installed. Install it with: pip install 'mastra-core[{extra}]'"
        )
    listed = f" Installed: {', '.join(sorted(set(known)))}." if known else ""
    return PluginError(f"No plugin {name!r} is installed.{listed}")
