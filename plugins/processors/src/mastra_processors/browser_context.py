"""What the agent's browser shows, as a lane of states: told once, then only what has changed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final

from pydantic import Field, ValidationError

from mastra_core.base.jsonjs import encode
from mastra_core.processors import ProcessorArgs
from mastra_core.wire.signals import Signal
from mastra_processors.browser_state import BrowserSource, BrowserState, DevToolsBrowser
from mastra_processors.built_in import BuiltIn
from mastra_processors.options import Options

__all__ = ("BrowserContext", "BrowserContextOptions")

_TAG: Final = "browser-context"
_LINES: Final = re.compile(r"\s+")

#: Members that may change while a run goes on, and what they are called in words.
_CHANGING: Final[Mapping[str, str]] = {
    "isOpen": "Open",
    "closeReason": "Closed by",
    "currentUrl": "Address",
    "pageTitle": "Title",
    "tabCount": "Tabs",
    "activeUrlChangeSource": "Page chosen by",
    "pageMetadata": "About the page",
}


class BrowserContextOptions(Options):
    """Options of ``browser-context``."""

    #: Where the state comes from; the member ``browser`` of the request context if not given.
    source: BrowserSource | None = None
    #: The same for a Chromium that was started with ``--remote-debugging-port``.
    devtools_url: str | None = None
    #: After so many changes the whole state is told again.
    snapshot_every: int = Field(default=20, ge=1)
    #: Titles and addresses are cut to so many characters: whoever wrote the page chose them.
    max_text: int = Field(default=300, ge=20)


class BrowserContext(BuiltIn[BrowserContextOptions]):
    """
    Tells the model before each step which page is open.

    A state lane (``browser``): the first signal is the whole state, later ones hold what has
    changed; an unchanged browser costs nothing. Needs an agent with memory and a run with a
    thread. An input processor.
    """

    id = "browser-context"
    options_type: ClassVar[type[Options]] = BrowserContextOptions
    state_id: ClassVar[str] = "browser"

    @cached_property
    def _source(self) -> BrowserSource | None:
        if self.options.source is not None:
            return self.options.source
        url = self.options.devtools_url
        return None if url is None else DevToolsBrowser(url)

    async def process_input(self, args: ProcessorArgs) -> None:
        """Hook 1: what doesn't change during the run."""
        state = await self._state(args)
        args.message_list.clear_system_messages(_TAG)
        if state is None:
            return
        words = f"You have a browser ({state.provider}{', headless' if state.headless else ''})."
        if state.provider_type == "cli" and state.cdp_url:
            words += f" Commands that drive it must connect to {state.cdp_url}."
        args.message_list.add_system(words, tag=_TAG)

    async def compute_state_signal(self, args: ProcessorArgs) -> dict[str, Any] | None:
        """Hook 3: the whole state, what has changed of it, or nothing."""
        state = await self._state(args)
        if state is None:
            return None
        now = self._shown(state)
        key = hashlib.sha256(encode(now).encode()).hexdigest()[:32]
        before = _known_value(args)
        changes = args.deltas_since_snapshot
        if before is None or len(changes) >= self.options.snapshot_every:
            return _signal(key, now, now, mode="snapshot")
        changed = {name: now.get(name) for name in _CHANGING if now.get(name) != before.get(name)}
        # What the model knows already needn't be said in another way.
        return _signal(key, now, changed, mode="delta") if changed else None

    async def _state(self, args: ProcessorArgs) -> BrowserState | None:
        if self._source is not None:
            return await self._source.state()
        given = args.request_context.get("browser")
        if not isinstance(given, Mapping):
            return None
        try:
            return BrowserState.model_validate(dict(given))
        except ValidationError:
            return None

    def _shown(self, state: BrowserState) -> dict[str, Any]:
        """The changing members, fit to be shown."""
        wire = state.to_wire()
        return {
            name: self._cut(value) for name in _CHANGING if (value := wire.get(name)) is not None
        }

    def _cut(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(name)[:40]: self._cut(inner) for name, inner in sorted(value.items())}
        if not isinstance(value, str):
            return value
        line = _LINES.sub(" ", value).strip()
        limit = self.options.max_text
        return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _known_value(args: ProcessorArgs) -> dict[str, Any] | None:
    """What the thread's signals say, taken together; None if the window has no whole state."""
    if args.context_window is None or not args.context_window.has_snapshot:
        return None
    assert args.last_snapshot is not None
    value = _metadata(args.last_snapshot, "value")
    if value is None:
        return None
    known = dict(value)
    for change in args.deltas_since_snapshot:
        for name, member in (_metadata(change, "delta") or {}).items():
            if member is None:
                known.pop(name, None)
            else:
                known[name] = member
    return known


def _metadata(signal: Signal, name: str) -> Mapping[str, Any] | None:
    value = (signal.metadata or {}).get(name)
    return value if isinstance(value, Mapping) else None


def _signal(
    key: str, now: Mapping[str, Any], told: Mapping[str, Any], *, mode: str
) -> dict[str, Any]:
    signal: dict[str, Any] = {
        "cache_key": key,
        "mode": mode,
        "tag_name": "browser",
        "contents": "\n".join(_lines(told)),
        "attributes": {"status": "open" if now.get("isOpen", True) else "closed"},
    }
    signal["value" if mode == "snapshot" else "delta"] = dict(told)
    return signal


def _lines(told: Mapping[str, Any]) -> Sequence[str]:
    return [f"{words}: {_word(told[name])}" for name, words in _CHANGING.items() if name in told]


def _word(value: Any) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case Mapping():
            return ", ".join(f"{name} = {_word(inner)}" for name, inner in value.items())
        case _:
            return str(value)
