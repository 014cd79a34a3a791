"""What the manager knows about one plugin. Mutable; only the manager changes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from mastra_core.errors import (
    MastraError,
    PluginBlockedError,
    PluginBrokenError,
    PluginError,
    PluginIncompatibleError,
)
from mastra_core.plugins.status import PluginOrigin
from mastra_core.plugins.versions import host_version

if TYPE_CHECKING:
    from mastra_core.plugins.discovery import Candidate

__all__ = ("Implementation", "PluginRecord", "RecordState", "first_line")

#: ``found``: not imported yet; ``imported``: not registered yet; ``dropped``: there was
#: nothing to import, or the same module stands in another record.
RecordState: TypeAlias = Literal[
    "found", "imported", "active", "blocked", "broken", "incompatible", "dropped"
]

_STAGES: Final[tuple[PluginOrigin, ...]] = ("instance", "builtin", "entry_point")


@dataclass(slots=True, kw_only=True, eq=False)
class PluginRecord:
    """One plugin from being found to being active or put aside."""

    name: str
    origin: PluginOrigin
    #: The user named or handed in this very plugin, so its failure is raised.
    explicit: bool = False
    distribution: str | None = None
    version: str | None = None
    summary: str = ""
    candidate: Candidate | None = None
    #: Import string of a plugin that isn't imported yet and has no candidate.
    source: str | None = None
    #: The module or object with the hooks.
    plugin: object | None = None
    state: RecordState = "found"
    #: Why it was put aside, or a note on an active plugin.
    reason: str = ""
    error: MastraError | None = None
    #: Hook, attribute and options of every function that carries the mark.
    marked: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    hooks: tuple[str, ...] = ()
    #: What its collecting hooks without arguments gave, consumed once.
    offers: dict[str, tuple[object, ...]] = field(default_factory=dict)
    #: Schemes that it named, even if the hook failed afterwards.
    schemes: set[str] = field(default_factory=set)
    #: ``mastra_startup`` succeeded, or there was none, and ``mastra_shutdown`` is still due.
    started: bool = False
    #: Position among plugins of one stage, set by the manager.
    position: int = 0

    @property
    def is_usable(self) -> bool:
        """True if its hooks are called."""
        return self.state == "active"

    @property
    def rank(self) -> tuple[int, int]:
        """Handed-in plugins first, then the core's, then the rest by name."""
        return _STAGES.index(self.origin), self.position

    @property
    def names(self) -> tuple[str, ...]:
        """What settings may call it."""
        return (self.name, self.distribution) if self.distribution else (self.name,)

    @property
    def label(self) -> str:
        """Its distribution, else its name."""
        return self.distribution or self.name

    @property
    def failure(self) -> MastraError:
        """What whoever needs the plugin gets; without the traceback of the last one."""
        error = self.error or PluginError(f"Plugin {self.name!r} can't be used.")
        return error.with_traceback(None)

    def put_aside(self, state: RecordState, error: MastraError, reason: str) -> None:
        """Never use it again; ``error`` is what whoever needs it will get."""
        self.state, self.error, self.reason = state, error, reason
        self.offers.clear()

    def break_off(self, cause: BaseException) -> None:
        """Put it aside because it raised."""
        reason = first_line(cause)
        error = PluginBrokenError(
            plugin=self.name,
            distribution=self.distribution or "",
            version=self.version or "",
            reason=reason,
        )
        error.__cause__ = cause
        self.put_aside("broken", error, reason)

    def refuse_api(self, kind: str, needed: str, offered: str) -> None:
        """Put it aside because it needs a newer or older API."""
        self.refuse(f"needs {kind} {needed}; mastra-core {host_version()} offers {offered}")

    def refuse(self, reason: str, *, advice: str | None = None) -> None:
        """Put it aside because it was written for another host."""
        advice = advice or f"Upgrade mastra-core or install an older {self.label}."
        error = PluginIncompatibleError(
            f"Plugin {self.name!r}{self._release()} {reason}. {advice}",
            details={
                "plugin": self.name,
                "distribution": self.distribution,
                "version": self.version,
            },
        )
        self.put_aside("incompatible", error, reason)

    def block(self, by: str) -> None:
        """Never import it."""
        error = PluginBlockedError(plugin=self.name, by=by)
        self.put_aside("blocked", error, f"switched off by {by}")

    def _release(self) -> str:
        release = " ".join(filter(None, (self.distribution, self.version)))
        return f" ({release})" if release else ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Implementation:
    """A function of a plugin that implements a hook."""

    record: PluginRecord
    hook: str
    function: Callable[..., Any]
    argument_names: tuple[str, ...]
    #: 0 for ``tryfirst``, 2 for ``trylast``, else 1.
    priority: int = 1
    is_wrapper: bool = False

    @property
    def key(self) -> tuple[int, str, str]:
        """The same for the same function, also after plugins were loaded or put aside."""
        return id(self.record), self.hook, getattr(self.function, "__qualname__", "")

    @property
    def rank(self) -> tuple[int, tuple[int, int]]:
        """Order of the calls; doesn't depend on the order of loading."""
        return self.priority, self.record.rank

    def __call__(self, arguments: dict[str, Any]) -> Any:
        return self.function(*(arguments[name] for name in self.argument_names))


def first_line(error: BaseException) -> str:
    """Class and first line of the message, for one sentence about a failure."""
    text = str(error).strip()
    name = type(error).__name__
    return f"{name}: {text.splitlines()[0]}" if text else name
