"""Records as the JSON text that lies under their keys, and back; pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from mastra_core.base import jsonjs
from mastra_core.base.isotime import to_iso_ms
from mastra_core.errors import StorageDataError, WireDecodeError
from mastra_core.wire.base import WireModel

__all__ = ("decoded", "encoded", "members", "model_of")

M = TypeVar("M", bound=WireModel)


@cache
def _aliases(kind: type[WireModel]) -> tuple[tuple[str, str], ...]:
    return tuple((name, field.alias or name) for name, field in kind.model_fields.items())


def members(model: WireModel) -> dict[str, Any]:
    """The members of a model under their wire names; absent ones are left out."""
    found: dict[str, Any] = {}
    for name, alias in _aliases(type(model)):
        value = getattr(model, name)
        if value is None:
            continue
        found[alias] = to_iso_ms(value) if type(value) is datetime else value
    if model.model_extra:
        found.update(model.model_extra)
    return found


def encoded(model: WireModel) -> bytes:
    """
    A model as JSON text.

    Raises:
        WireEncodeError: A member has no JSON form; the path says which.
    """
    return jsonjs.encode_bytes(members(model))


def decoded(text: bytes, *, what: str) -> Any:
    """
    The value of a record's text.

    Raises:
        StorageDataError: It isn't JSON.
    """
    try:
        return jsonjs.decode(text)
    except WireDecodeError as exc:
        raise StorageDataError(f"The record of {what} is no JSON.", details={"what": what}) from exc


def model_of(kind: type[M], text: bytes, *, what: str) -> M:
    """
    The model that a record's text holds; unknown members are kept.

    Raises:
        StorageDataError: It is no JSON, or not such a model.
    """
    value = decoded(text, what=what)
    if not isinstance(value, Mapping):
        raise StorageDataError(f"The record of {what} is no object.", details={"what": what})
    try:
        return kind.model_validate(value)
    except (ValueError, WireDecodeError) as exc:
        raise StorageDataError(
            f"The record of {what} can't be read as {kind.__name__}.", details={"what": what}
        ) from exc
