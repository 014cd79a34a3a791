"""Deep copies at the border: nothing inside the store is shared with anybody outside."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from mastra_core.base import jsonjs
from mastra_core.base.isotime import epoch_ms
from mastra_core.wire.base import WireModel

__all__ = ("Encoded", "copied", "ms")

M = TypeVar("M", bound=WireModel)

ms = epoch_ms


class Encoded(bytes):
    """A JSON value as the store keeps it: it can't be changed and is cheap to hand out."""

    __slots__ = ()

    @classmethod
    def of(cls, value: Any, path: str = "$") -> Encoded:
        """Encode a value of the caller's; what has no JSON form is refused."""
        return cls(jsonjs.encode_bytes(value, path_prefix=path))

    def value(self) -> Any:
        """A fresh copy of the value."""
        return jsonjs.decode(self)


def copied(model: M, members: Iterable[str], **changes: Any) -> M:
    """
    The model with its own copy of the JSON members named, and of members that we don't know.

    Args:
        model: What to copy.
        members: Members that hold JSON values.
        changes: Other members that are set anew, and belong to the copy as they are.

    Raises:
        WireEncodeError: One of them has no JSON form.
    """
    for name in members:
        value = getattr(model, name)
        if value is not None:
            changes[name] = jsonjs.sanitize_copy(value, path_prefix=f"$.{name}")
    for name, value in (model.__pydantic_extra__ or {}).items():
        changes[name] = jsonjs.sanitize_copy(value, path_prefix=f"$.{name}")
    return model.replace(**changes) if changes else model
