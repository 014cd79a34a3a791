"""What the options of all processors have in common."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

__all__ = ("Options",)


class Options(BaseModel):
    """
    Options of one processor: frozen, checked, with TypeScript's names as aliases.

    So a configuration that the TypeScript editor stored can be read (processors.md 10.5).
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
    )
