"""What may be set for a JSON file."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from mastra_core.errors import InvalidUrlError
from mastra_core.rules.snapshots import DEFAULT_MAX_BYTES

__all__ = ("JsonFileSettings",)


class JsonFileSettings(BaseModel):
    """
    Options of the store; ``mastra_lock_timeout_ms=500`` in the URL sets one, too.

    Example::

        JsonFileSettings(url="jsonfile:./app.json", lock_timeout_ms=500)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: ``jsonfile:path``
    url: str
    #: How long a call waits for other processes before it gives up.
    lock_timeout_ms: int = Field(default=10_000, ge=1, le=600_000)
    #: Larger snapshots of runs are refused (snapshots.md G12).
    max_snapshot_bytes: int = Field(default=DEFAULT_MAX_BYTES, ge=1024)

    def path(self, namespace: str = "") -> Path:
        """
        The file that the URL names; users with a namespace get a file of their own beside it.

        Raises:
            InvalidUrlError: It names none.
        """
        path = Path(self.url.partition(":")[2].partition("?")[0])
        if not path.name:
            raise InvalidUrlError(url=self.url, reason="it names no file")
        return path.with_stem(f"{path.stem}.{namespace}") if namespace else path
