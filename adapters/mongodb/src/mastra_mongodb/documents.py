"""Documents as models and back: pure functions, tested without a server.

A member that is JSON stands in a document as native values, as Node writes it. What BSON
can't hold – a NUL in a member's name, half a surrogate pair, an integer beyond 64 bits – is
kept as JSON text: the whole member under one name of ours (``ODD``), or in a snapshot with
the escapes of snapshots.md G13.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

import bson
from bson.codec_options import CodecOptions, DatetimeConversion, TypeDecoder, TypeRegistry
from bson.decimal128 import Decimal128
from bson.errors import BSONError
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from pydantic import BaseModel

from mastra_core.base import jsonjs
from mastra_core.base.isotime import parse_iso, to_iso_ms
from mastra_core.errors import StorageDataError, WireDecodeError

__all__ = (
    "JSON",
    "ODD",
    "RAW",
    "ROWS",
    "DocumentCodec",
    "is_bson",
    "json_from_member",
    "member_from_json",
    "trusted",
)

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=BaseModel)

ODD: Final = "__mastra_py_json"
"""The one member of an object that stands for a value that BSON can't hold: its JSON text."""


# -- how documents are read -------------------------------------------------------------------


class _Numbers(TypeDecoder):
    """Node writes ``1`` as a double; JSON knows one kind of number."""

    bson_type = float  # pyright: ignore[reportAssignmentType]  # as the driver documents it

    def transform_bson(self, value: Any) -> Any:
        return int(value) if value.is_integer() and -(2.0**53) <= value <= 2.0**53 else value


class _Integers(TypeDecoder):
    """A plain integer instead of the driver's own kind."""

    bson_type = Int64  # pyright: ignore[reportAssignmentType]  # as the driver documents it

    def transform_bson(self, value: Any) -> Any:
        return int(value)


class _Times(TypeDecoder):
    """A time inside of JSON is text."""

    bson_type = datetime  # pyright: ignore[reportAssignmentType]  # as the driver documents it

    def transform_bson(self, value: Any) -> Any:
        return to_iso_ms(value)


class _Ids(TypeDecoder):
    """What only a peer's driver can have put there; JavaScript writes it as text."""

    bson_type = ObjectId  # pyright: ignore[reportAssignmentType]  # as the driver documents it

    def transform_bson(self, value: Any) -> Any:
        return str(value)


class _Decimals(TypeDecoder):
    """Likewise."""

    bson_type = Decimal128  # pyright: ignore[reportAssignmentType]  # as the driver documents it

    def transform_bson(self, value: Any) -> Any:
        return str(value)


class _Bytes(TypeDecoder):
    """Likewise, as base64."""

    bson_type = bytes  # pyright: ignore[reportAssignmentType]  # as the driver documents it

    def transform_bson(self, value: Any) -> Any:
        return base64.b64encode(value).decode("ascii")


ROWS: Final[CodecOptions[dict[str, Any]]] = CodecOptions(
    tz_aware=True,
    tzinfo=UTC,
    type_registry=TypeRegistry([_Numbers(), _Integers()]),
    datetime_conversion=DatetimeConversion.DATETIME_CLAMP,
)
"""Rows: times are aware datetimes."""

JSON: Final[CodecOptions[dict[str, Any]]] = CodecOptions(
    tz_aware=True,
    tzinfo=UTC,
    type_registry=TypeRegistry([_Numbers(), _Integers(), _Times(), _Ids(), _Decimals(), _Bytes()]),
    datetime_conversion=DatetimeConversion.DATETIME_CLAMP,
)
"""JSON documents: times are text, as JavaScript writes them."""

RAW: Final = CodecOptions(
    document_class=RawBSONDocument,
    tz_aware=True,
    tzinfo=UTC,
    datetime_conversion=DatetimeConversion.DATETIME_CLAMP,
)
"""Rows whose parts are decoded when they are needed."""


# -- JSON members -----------------------------------------------------------------------------


def is_bson(value: Any) -> bool:
    """Whether a plain JSON value can stand in a document as it is."""
    try:
        bson.encode({"": value})
    except (BSONError, UnicodeEncodeError, OverflowError):
        return False
    return True


def member_from_json(value: Any, path: str = "$") -> Any:
    """
    A JSON value as it is stored.

    Raises:
        WireEncodeError: It has no JSON form.
    """
    if value is None:
        return None
    plain = jsonjs.sanitize_copy(value, path_prefix=path)
    is_taken = type(plain) is dict and ODD in plain
    return {ODD: jsonjs.encode(plain)} if is_taken or not is_bson(plain) else plain


def json_from_member(stored: Any) -> Any:
    """The JSON value of a member that was read with ``ROWS``."""
    kind = type(stored)
    if kind is dict:
        if len(stored) == 1 and ODD in stored:
            return jsonjs.decode(stored[ODD])
        return _plain(stored)
    return _plain(stored) if kind is not str else stored


def _plain(value: Any) -> Any:
    """The value with times as text; changed in place, since nobody else has it."""
    kind = type(value)
    if kind is dict:
        for key, item in value.items():
            if type(item) not in _AS_THEY_ARE:
                value[key] = _plain(item)
        return value
    if kind is list:
        for index, item in enumerate(value):
            if type(item) not in _AS_THEY_ARE:
                value[index] = _plain(item)
        return value
    if kind in _AS_THEY_ARE:
        return value
    return to_iso_ms(value) if kind is datetime else _foreign(value)


_AS_THEY_ARE: Final = frozenset({str, int, float, bool, type(None)})


def _foreign(value: Any) -> Any:
    """What only a peer can have put there: an id, a decimal, bytes."""
    return jsonjs.sanitize_copy(value) if isinstance(value, bytes) else str(value)


# -- models -----------------------------------------------------------------------------------


class DocumentCodec(Generic[M]):
    """
    Converts between documents of a collection and models.

    Args:
        model: Its wire names are the names of the document's members.
        collection: For messages.
        json: Members (Python names) that hold JSON.
        times: Members that are datetimes outside and dates in the document.
        iso: Members that are datetimes outside and ISO text in the document.
    """

    def __init__(
        self,
        model: type[M],
        collection: str,
        *,
        json: Iterable[str] = (),
        times: Iterable[str] = (),
        iso: Iterable[str] = (),
    ) -> None:
        self._model = model
        self._collection = collection
        self._names = {
            name: self.member(name, info.alias or name) for name, info in model.model_fields.items()
        }
        readers: dict[str, Callable[[Any], Any]] = dict.fromkeys(json, json_from_member)
        readers |= dict.fromkeys(times, _time_from_member) | dict.fromkeys(iso, _time_from_member)
        writers: dict[str, Callable[[Any], Any]] = dict.fromkeys(json, member_from_json)
        writers |= dict.fromkeys(iso, to_iso_ms)
        self._readers = tuple(readers.items())
        self._writers = writers
        self._columns = tuple(self._names.items())
        self._defaults = {
            name: info.default
            for name, info in model.model_fields.items()
            if not info.is_required() and info.default is not None
        }
        self._required = frozenset(
            name for name, info in model.model_fields.items() if info.is_required()
        ) - set(json)

    def member(self, field: str, alias: str) -> str:
        """The name of a field in the document: that on the wire, unless a collection differs."""
        return alias

    def model(self, document: Mapping[str, Any]) -> M:
        """
        The model of a document.

        Raises:
            StorageDataError: It can't be read as one.
        """
        get = document.get
        values = {field: get(name) for field, name in self._columns}
        given = {field for field, value in values.items() if value is not None}
        try:
            for field, read in self._readers:
                value = values[field]
                if value is not None:
                    values[field] = read(value)
            if not self._required <= given:
                raise WireDecodeError(f"{min(self._required - given)} is missing.")
        except (WireDecodeError, ValueError, TypeError) as exc:
            raise StorageDataError(
                f"A document of {self._collection!r} can't be read: {exc}",
                details={"collection": self._collection, "id": str(get("id"))},
            ) from exc
        for field, default in self._defaults.items():
            if values[field] is None:
                values[field] = default
        return trusted(self._model, values, given)

    def models(self, documents: Iterable[Mapping[str, Any]]) -> list[M]:
        """The models of many documents; one that can't be read is left out, with a warning."""
        found: list[M] = []
        for document in documents:
            try:
                found.append(self.model(document))
            except StorageDataError as exc:
                logger.warning("unreadable document left out", extra={"error": str(exc)})
        return found

    def document(self, model: M) -> dict[str, Any]:
        """All members of the document; what is absent is null, as Node writes it."""
        values = model.__dict__
        document = {name: values[field] for field, name in self._columns}
        for field, write in self._writers.items():
            name = self._names[field]
            if document[name] is not None:
                document[name] = write(document[name])
        return document

    def given(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Members for these fields (Python names)."""
        found: dict[str, Any] = {}
        for field, value in fields.items():
            write = self._writers.get(field)
            found[self._names[field]] = value if write is None or value is None else write(value)
        return found

    def changes(self, before: M, after: M) -> dict[str, Any]:
        """Members whose value differs; a JSON value is another one if it is another object."""
        old, new = before.__dict__, after.__dict__
        return self.given(
            {
                field: new[field]
                for field in self._names
                if new[field] is not old[field]
                and (self._writers.get(field) is member_from_json or new[field] != old[field])
            }
        )


def _time_from_member(value: Any) -> datetime:
    """A time that may stand there as a date, as text, or as milliseconds."""
    if type(value) is datetime:
        return value
    if isinstance(value, str):
        return parse_iso(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value / 1000, UTC)
    raise WireDecodeError(f"{value!r} is no time.")


def trusted(model: type[M], values: dict[str, Any], given: set[str]) -> M:
    """A model of values that are known to be right, as ``model_construct`` makes it, but fast."""
    made = model.__new__(model)
    put = object.__setattr__
    put(made, "__dict__", values)
    put(made, "__pydantic_fields_set__", given)
    put(made, "__pydantic_extra__", {})
    put(made, "__pydantic_private__", None)
    return made
