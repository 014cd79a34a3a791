"""The base of every wire model, and the types its fields share."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel

from mastra_core.base.isotime import from_epoch_ms, in_utc, parse_iso, to_iso_ms, truncate_ms
from mastra_core.base.jsonjs import sanitize_copy

__all__ = ("IsoTime", "JsonObject", "WireModel", "trusted")

M = TypeVar("M", bound=BaseModel)

JsonObject = dict[str, Any]
"""A JSON object whose members are not ours to know."""


def _as_time(value: object) -> object:
    """Read a time as a peer may have written it: ISO text, epoch milliseconds, a datetime."""
    if isinstance(value, datetime):
        return truncate_ms(in_utc(value))
    if isinstance(value, str):
        return parse_iso(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return from_epoch_ms(value)
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
        return self._dumped(exclude_unset=True)

    def _dumped(self, *, exclude_unset: bool = False, exclude_none: bool = False) -> dict[str, Any]:
        """The members as plain JSON values; absent ones are those that are unset, or None."""
        rest: dict[str, Any] = {"exclude_unset": exclude_unset, "exclude_none": exclude_none}
        try:
            return self.model_dump(mode="json", by_alias=True, **rest)
        except UnicodeError:  # a member's name holds a lone surrogate, or there are bytes
            plain: dict[str, Any] = sanitize_copy(self.model_dump(by_alias=True, **rest))
            return plain

    def replace(self, **changes: Any) -> Self:
        """A copy with the given members (Python names) set."""
        old = self.__dict__
        values = {**old, **changes}
        if self.__pydantic_extra__ or len(values) != len(old):
            return self.model_copy(update=changes)
        # What ``model_copy`` does, for the usual case that nothing but fields is concerned.
        return trusted(type(self), values, self.__pydantic_fields_set__.union(changes))


def trusted(model: type[M], values: dict[str, Any], given: set[str]) -> M:
    """
    A model of values that are known to be right, as ``model_construct`` makes it, but fast.

    Args:
        model: A model without private attributes.
        values: Every member, under its Python name; belongs to the model from now on.
        given: The members that were set; belongs to the model, too.
    """
    made = model.__new__(model)
    _set_values(made, values)
    _set_given(made, given)
    _set_extra(made, {})
    _set_private(made, None)
    return made


# ``object.__setattr__`` does the same, but looks each of them up for every model.
_set_values, _set_given, _set_extra, _set_private = (
    BaseModel.__dict__[name].__set__
    for name in (
        "__dict__",
        "__pydantic_fields_set__",
        "__pydantic_extra__",
        "__pydantic_private__",
    )
)
