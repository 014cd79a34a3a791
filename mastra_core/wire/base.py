"""The base of every wire model, and the types its fields share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel

from mastra_core.base.isotime import parse_iso, to_iso_ms, truncate_ms
from mastra_core.base.jsonjs import sanitize_copy

__all__ = ("IsoTime", "JsonObject", "WireModel")

JsonObject = dict[str, Any]
"""A JSON object whose members are not ours to know."""


def _as_time(value: object) -> object:
    """Read a time as a peer may have written it: ISO text, epoch milliseconds, a datetime."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return truncate_ms(aware.astimezone(UTC))
    if isinstance(value, str):
        return parse_iso(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return truncate_ms(datetime.fromtimestamp(value / 1000, UTC))
    return value


IsoTime = Annotated[
    datetime,
    BeforeValidator(_as_time),
    PlainSerializer(to_iso_ms, return_type=str, when_used="json"),
]
"""An instant in UTC with millisecond precision; written as JavaScript writes it."""


class WireModel(BaseModel):
    """Base of everything that leaves the process.

    Members that we don't know are kept, so that a row written by a newer
    peer survives a round trip through us.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="allow",
        frozen=True,
    )

    def to_wire(self) -> dict[str, Any]:
        """Plain JSON values under their wire names; unset members stay absent."""
        try:
            return self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        except UnicodeEncodeError:  # a member's name holds a lone surrogate
            plain: dict[str, Any] = sanitize_copy(
                self.model_dump(by_alias=True, exclude_unset=True)
            )
            return plain

    def replace(self, **changes: Any) -> Self:
        """A copy with the given members (Python names) set."""
        return self.model_copy(update=changes)
