"""Options of the processor."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

__all__ = ("Kind", "RedactionSettings")

Kind = Literal["email", "card", "key"]


class RedactionSettings(BaseModel):
    """
    What an agent may say beside the name.

    Example::

        Agent(..., input_processors=[("redaction", {"kinds": ["card"], "mask": "***"})])
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: What is looked for.
    kinds: tuple[Kind, ...] = ("email", "card", "key")
    #: What stands in its place; ``{kind}`` becomes the kind.
    mask: str = "[{kind}]"
