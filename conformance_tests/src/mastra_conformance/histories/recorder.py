"""Records what clients asked and were answered, on one clock."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

__all__ = ("History", "Operation")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call of one client; times are seconds of the host's monotonic clock."""

    client: str
    name: str
    arguments: dict[str, Any]
    invoked_at: float
    returned_at: float
    #: None if the call raised.
    result: Any = None
    error: str | None = None


@dataclass(slots=True)
class History:
    """Operations in the order in which they returned."""

    clock: Callable[[], float] = time.monotonic
    operations: list[Operation] = field(default_factory=list)

    async def record(self, client: str, name: str, call: Awaitable[T], **arguments: Any) -> T:
        """Await the call and note it; what it raises is noted and raised on."""
        invoked_at = self.clock()
        error: str | None = None
        result: Any = None
        try:
            answer = result = await call
        except Exception as exc:
            error = type(exc).__name__
            raise
        finally:
            operation = Operation(
                client=client,
                name=name,
                arguments=arguments,
                invoked_at=invoked_at,
                returned_at=self.clock(),
                result=result,
                error=error,
            )
            self.add(operation)
        return answer

    def add(self, operation: Operation) -> None:
        """Take in what was recorded, here or in another process."""
        self.operations.append(operation)

    def to_json_lines(self) -> str:
        """One line per operation, for the file of a failed test."""
        return "\n".join(json.dumps(asdict(one), default=str) for one in self.operations)
