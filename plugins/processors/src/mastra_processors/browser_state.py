"""What an agent should know about its browser, and where that is found out."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, Protocol, runtime_checkable
from urllib.parse import urlsplit

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from mastra_core.errors import ConfigError
from mastra_processors.options import Options

__all__ = ("BrowserSource", "BrowserState", "DevToolsBrowser")

_DEADLINE: Final = 2.0
_MAX_BYTES: Final = 4_000_000
#: Pages of the browser's own.
_INNER: Final = ("devtools:", "chrome-extension:")


class BrowserState(Options):
    """
    A browser as the agent sees it; the names are those of the TypeScript system.

    What isn't known is None. Hosts may put the wire form into the request context under
    ``browser``; members that we don't know are kept apart.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )

    #: What drives it, such as ``chromium``.
    provider: str = "browser"
    #: ``cli``: the agent drives it with commands that take ``cdp_url``.
    provider_type: Literal["sdk", "cli"] | None = None
    session_id: str | None = None
    headless: bool | None = None
    is_open: bool = True
    close_reason: Literal["agent", "user", "process_restart", "error"] | None = None
    current_url: str | None = None
    page_title: str | None = None
    tab_count: int | None = None
    #: Who went to the page that is open.
    active_url_change_source: Literal["agent", "user"] | None = None
    page_metadata: Mapping[str, str | int | float | bool | None] | None = None
    cdp_url: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """Known members under their wire names."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


@runtime_checkable
class BrowserSource(Protocol):
    """Where the state of a browser comes from."""

    async def state(self) -> BrowserState | None:
        """The state now; None if there is no browser to speak of."""
        ...


class DevToolsBrowser:
    """
    A Chromium that was started with ``--remote-debugging-port``.

    Asks its HTTP endpoint for the open pages; the first is the one that was used last. A browser
    that doesn't answer within two seconds counts as closed.

    Args:
        url: The endpoint, such as ``http://127.0.0.1:9222``.

    Raises:
        ConfigError: It isn't such an address.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.port is None:
            raise ConfigError(f"A DevTools endpoint is http://<host>:<port>, not {url!r}.")
        self.url: str = f"http://{parts.hostname}:{parts.port}"
        self._host, self._port = parts.hostname, parts.port
        self._was_open = False

    async def state(self) -> BrowserState:
        """The state now."""
        try:
            pages = await asyncio.to_thread(self._pages)
        except (OSError, http.client.HTTPException, ValueError):
            return BrowserState(
                provider="chromium",
                is_open=False,
                close_reason="error" if self._was_open else None,
            )
        self._was_open = True
        active: Mapping[str, Any] = pages[0] if pages else {}
        return BrowserState(
            provider="chromium",
            current_url=active.get("url"),
            page_title=active.get("title") or None,
            tab_count=len(pages),
        )

    def _pages(self) -> list[Mapping[str, Any]]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_DEADLINE)
        try:
            connection.request("GET", "/json/list")
            response = connection.getresponse()
            if response.status != http.client.OK:
                raise OSError(f"the browser answered {response.status}")
            targets = json.loads(response.read(_MAX_BYTES))
        finally:
            connection.close()
        return [
            target
            for target in targets
            if target.get("type") == "page" and not str(target.get("url")).startswith(_INNER)
        ]
