"""The way of one plugin from its name to its hooks; each step can put it aside.

Nothing here calls a hook, except for ``mastra_addhooks``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from mastra_core.plugins.calls import CONTAINED
from mastra_core.plugins.discovery import GROUP
from mastra_core.plugins.records import Implementation, PluginRecord
from mastra_core.plugins.versions import declared_api, unmet_api

if TYPE_CHECKING:
    import pluggy

__all__ = (
    "WRAPPABLE",
    "PluginHost",
    "import_name",
    "import_record",
)

#: The one hook whose implementations may be wrappers.
WRAPPABLE: Final = "mastra_processor_call"
#: Policies whose implementations must be plain functions.
_SYNC_POLICIES: Final = frozenset({"collect", "decide", "observe"})


def import_name(name: str) -> Any:
    """The object of ``"package.module:attribute"``, or the module of ``"package.module"``."""
    module_name, _, path = name.partition(":")
    found: Any = import_module(module_name)
    for attribute in path.split(".") if path else ():
        found = getattr(found, attribute)
    return found


def import_record(record: PluginRecord) -> None:
    """Import a found plugin and judge the API that it was written for."""
    try:
        if record.plugin is None and record.candidate is not None:
            record.plugin = record.candidate.entry_point.load()
        elif record.plugin is None and record.source is not None:
            record.plugin = import_name(record.source)
        unmet = unmet_api(record.plugin)
        declared = declared_api(record.plugin)
    except CONTAINED as error:
        record.break_off(error)
        return
    if unmet is not None:
        kind, needed, offered = unmet
        record.refuse_api(kind, needed, offered)
        return
    record.state = "imported"
    if declared is None and record.origin == "entry_point":
        record.reason = "doesn't state MASTRA_PLUGIN_API; (1, 0) is assumed"


class PluginHost:
    """The pluggy side: definitions of hooks, registration, implementations in order."""

    def __init__(self) -> None:
        # Here, so that importing the package doesn't import pluggy.
        import pluggy

        from mastra_core.plugins import hookspecs

        self._pluggy: pluggy.PluginManager = pluggy.PluginManager(GROUP)
        self._pluggy.add_hookspecs(hookspecs)

    def add_hookspecs(self, definitions: ModuleType | type) -> None:
        """Add the marked functions of a module or class to the known hooks."""
        self._pluggy.add_hookspecs(definitions)

    def policy(self, hook: str) -> str | None:
        """How a hook is called; None if the hook is unknown."""
        from mastra_core.plugins.markers import policy_of

        caller = getattr(self._pluggy.hook, hook, None)
        if caller is None or caller.spec is None:
            return None
        return policy_of(caller.spec.function)

    def read(self, record: PluginRecord) -> None:
        """Note the implementations of an imported plugin, and let it define hooks."""
        if record.state != "imported":
            return
        try:
            record.marked = self._marked(record.plugin)
            for hook, attribute, _ in record.marked:
                if hook == "mastra_addhooks":
                    function: Callable[..., Any] = getattr(record.plugin, attribute)
                    function(*(self for _ in inspect.signature(function).parameters))
        except CONTAINED as error:
            record.break_off(error)

    def has_unknown_hooks(self, record: PluginRecord) -> bool:
        """True if the plugin implements a hook that isn't defined (yet)."""
        return record.state == "imported" and self._unknown_hook(record) is not None

    def _unknown_hook(self, record: PluginRecord) -> str | None:
        for hook, _, options in record.marked:
            if self.policy(hook) is None and not options.get("optionalhook"):
                return hook
        return None

    def _marked(self, plugin: object) -> list[tuple[str, str, dict[str, Any]]]:
        found: list[tuple[str, str, dict[str, Any]]] = []
        for attribute in dir(plugin):
            options = self._pluggy.parse_hookimpl_opts(plugin, attribute)
            if options is not None:
                found.append((options.get("specname") or attribute, attribute, dict(options)))
        return found

    def register(self, record: PluginRecord) -> None:
        """Judge the hooks of an imported plugin, and make it active."""
        if record.state != "imported":
            return
        try:
            self._register(record)
        except CONTAINED as error:
            self.unregister(record)
            record.break_off(error)

    def _register(self, record: PluginRecord) -> None:
        if (unknown := self._unknown_hook(record)) is not None:
            record.refuse(f"implements the unknown hook {unknown!r}")
            return
        for hook, _, options in record.marked:
            if options.get("hookwrapper") or (options.get("wrapper") and hook != WRAPPABLE):
                record.refuse(
                    f"wraps the hook {hook!r}",
                    advice=f"Only {WRAPPABLE} may be wrapped, with wrapper=True.",
                )
                return
        self._pluggy.register(record.plugin, name=self._registered_name(record))
        record.hooks = tuple(sorted({hook for hook, _, _ in record.marked if self.policy(hook)}))
        for hook in record.hooks:
            self._check_function(record, hook)
        record.state = "active"
        if not record.hooks and not record.reason:
            record.reason = "implements no hook; is the mark @hookimpl missing?"

    def _check_function(self, record: PluginRecord, hook: str) -> None:
        for implementation in self.implementations(hook, (record,)):
            function = implementation.function
            if self.policy(hook) in _SYNC_POLICIES and (
                inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
            ):
                raise TypeError(f"{hook} must be a plain function, not async")

    def unregister(self, record: PluginRecord) -> None:
        """Forget the hooks of a plugin."""
        name = self._registered_name(record)
        if self._pluggy.has_plugin(name):
            self._pluggy.unregister(name=name)

    def _registered_name(self, record: PluginRecord) -> str:
        # Two distributions may use one name, and one may be loaded again after it broke.
        return f"{record.name}#{id(record)}"

    def implementations(
        self, hook: str, records: tuple[PluginRecord, ...]
    ) -> tuple[Implementation, ...]:
        """The implementations of a hook by these plugins, in the order of the calls."""
        owners = {self._registered_name(record): record for record in records}
        found = [
            Implementation(
                record=owners[item.plugin_name],
                hook=hook,
                function=item.function,
                argument_names=tuple(item.argnames),
                priority=0 if item.tryfirst else 2 if item.trylast else 1,
                is_wrapper=bool(item.wrapper or item.hookwrapper),
            )
            for item in getattr(self._pluggy.hook, hook).get_hookimpls()
            if item.plugin_name in owners
        ]
        return tuple(sorted(found, key=lambda item: item.rank))
