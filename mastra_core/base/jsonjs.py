"""The one JSON codec: writes what JavaScript writes, loses nothing silently.

Every room and adapter goes through here. The rules for Python values are those
of snapshots.md G13 and pubsub_and_lease.md 2.2: no blanks, ``1`` for ``1.0``,
times in UTC with three decimals and ``Z``, bytes as base64, integers of any
size exactly; what has no JSON form is refused with the path to it. Members
keep the order of the caller's dict.

Almost everything that passes is already plain. Such values are recognised by a
scan that is as cheap as Python allows and written by ``pydantic_core``; only
the others are walked value by value. Tests prove that both ways write the same.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from gc import get_referents as _referents
from types import NoneType
from typing import Any, Final
from uuid import UUID

from pydantic_core import PydanticSerializationError, from_json, to_json

from mastra_core.base.isotime import to_iso_ms
from mastra_core.base.jsvalues import join_surrogates, js_number, js_string, quote
from mastra_core.base.unset import UNDEFINED, UNSET
from mastra_core.errors import MastraError, WireDecodeError, WireEncodeError

__all__ = (
    "MAX_DEPTH",
    "UNDEFINED",
    "decode",
    "decode_each",
    "encode",
    "encode_bytes",
    "encode_each",
    "is_plain",
    "js_number",
    "js_string",
    "json_path",
    "json_paths_by_size",
    "sanitize_copy",
    "twin",
)

#: Containers inside containers; deeper values are refused (snapshots.md G13).
MAX_DEPTH: Final = 100

#: The exact types whose values are written as they are.
_FIXED: Final = frozenset({bool, NoneType})
#: Python refuses to print integers of many digits; the limit is at least 640 digits.
_HUGE: Final = 10**640
_LOWEST: Final = -_HUGE
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
#: Between these, a fraction is laid out alike by both writers.
_SMALLEST_ALIKE: Final = 1e-5
_LARGEST_ALIKE: Final = 1e15
#: An integral float from here on is written with an exponent, so it stays a float.
_FIRST_WITH_EXPONENT: Final = 1e21
#: A level of a tree with more containers than this is looked at once per container.
_MANY: Final = 10_000


def encode(value: Any, *, lenient: bool = False, path_prefix: str = "$") -> str:
    """
    The value as JSON text, byte for byte as JavaScript writes it.

    Args:
        value: Plain data, or what ``snapshots.md`` G13 turns into plain data.
        lenient: Write null for NaN and infinities, and read naive times as UTC.
        path_prefix: What the paths in errors start with.

    Raises:
        WireEncodeError: Something in it has no JSON form; ``path`` says where.
    """
    return _encode(value, lenient, path_prefix).decode()


def encode_bytes(value: Any, *, lenient: bool = False, path_prefix: str = "$") -> bytes:
    """As ``encode``, but UTF-8 bytes, which saves a copy where a driver wants bytes."""
    return _encode(value, lenient, path_prefix)


def encode_each(values: Sequence[Any], *, path_prefix: str = "$") -> list[bytes]:
    """Every value as ``encode_bytes`` writes it; cheaper than one by one."""
    try:
        if is_plain(values if type(values) is list else list(values)):
            return [to_json(value) for value in values]
    except PydanticSerializationError:
        pass  # There is a lone surrogate in one of them.
    return [_encode(value, False, path_prefix) for value in values]


def decode_each(texts: Sequence[bytes]) -> list[Any]:
    """The values of some JSON texts, each as ``decode`` reads it; cheaper than one by one.

    Raises:
        WireDecodeError: One of them isn't JSON.
    """
    values: list[Any] = decode(b"[%b]" % b",".join(texts))
    if len(values) != len(texts):
        return [decode(text) for text in texts]
    return values


def _encode(value: Any, lenient: bool, path_prefix: str) -> bytes:  # noqa: FBT001 - private
    if not is_plain(value):
        value = _Plainer(lenient=lenient, path_prefix=path_prefix).plain(value)
        if not is_plain(value):  # an odd number is left
            return _write(value).encode()
    try:
        return to_json(value)
    except PydanticSerializationError:
        # There is a lone surrogate.
        plain = _Plainer(lenient=lenient, path_prefix=path_prefix).plain(value)
        return _write(plain).encode()


def decode(data: str | bytes | bytearray) -> Any:
    """
    The value of JSON text; integers exactly, lone surrogates kept.

    Raises:
        WireDecodeError: It isn't JSON as JavaScript reads it (no NaN, no comments).
    """
    try:
        return from_json(data, allow_inf_nan=False)
    except (ValueError, TypeError):
        # It refuses escapes of lone surrogates, which JavaScript writes and reads.
        return _decode_exactly(data)


def _decode_exactly(data: str | bytes | bytearray) -> Any:
    try:
        text = data if isinstance(data, str) else bytes(data).decode("utf-8", "surrogatepass")
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as exc:
        raise WireDecodeError("The JSON text is nested too deeply.") from exc
    except (ValueError, TypeError) as exc:
        raise WireDecodeError(f"The text is not JSON: {exc}") from exc


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def sanitize_copy(value: Any, *, lenient: bool = False, path_prefix: str = "$") -> Any:
    """
    A deep copy as a store would give it back: plain JSON values, shared with nobody.

    Raises:
        WireEncodeError: As ``encode``.
    """
    try:
        return _copy_plain(value, 0)
    except _NotPlainError:
        return _Plainer(lenient=lenient, path_prefix=path_prefix).plain(value)


def twin(value: Any) -> Any:
    """A deep copy of what is plain already, because it was decoded or is such a copy."""
    kind = type(value)
    if kind is dict:
        copied = value.copy()
        for key, item in value.items():
            if type(item) is dict or type(item) is list:
                copied[key] = twin(item)
        return copied
    if kind is list:
        return [twin(item) if type(item) is dict or type(item) is list else item for item in value]
    return value


class _NotPlainError(Exception):
    """The value needs the long way."""


def _copy_plain(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind is dict or kind is list:
        if depth >= MAX_DEPTH:
            raise _NotPlainError
        return _copy_dict(value, depth + 1) if kind is dict else _copy_list(value, depth + 1)
    if kind is str:
        plain = not _SURROGATE.search(value)
    elif kind is int:
        plain = -_HUGE < value < _HUGE
    else:
        plain = kind in _FIXED or (kind is float and _is_alike(value))
    if plain:
        return value
    raise _NotPlainError


def _copy_dict(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    copied = {}
    for key, item in value.items():
        if type(key) is not str or not (key.isascii() or not _SURROGATE.search(key)):
            raise _NotPlainError
        kind = type(item)
        if kind in _FIXED or (kind is str and item.isascii()):  # most items; spares a call
            copied[key] = item
        else:
            copied[key] = _copy_plain(item, depth)
    return copied


def _copy_list(value: list[Any], depth: int) -> list[Any]:
    return [
        item
        if (kind := type(item)) in _FIXED or (kind is str and item.isascii())
        else _copy_plain(item, depth)
        for item in value
    ]


def is_plain(value: Any) -> bool:
    """
    True if the value needs no conversion: exact str, int, bool, None, list, dict with str keys.

    Floats count if they have a fraction and no exponent. Too deep or cyclic values are not plain.
    """
    kind = type(value)
    containers = [value] if kind is dict or kind is list else [[value]]
    lowest, highest = _LOWEST, _HUGE
    for _ in range(MAX_DEPTH):
        # All items of a level in one call into C. The collector visits the keys of a dict only
        # if some of them may be no exact str, and then it visits more than there are items.
        items = _referents(*containers)
        if len(items) != sum(map(len, containers)):
            if not _have_text_keys(containers):
                return False
            items = [item for c in containers for item in (c.values() if type(c) is dict else c)]
        containers = []
        # One flat loop: this runs for every value that is stored or sent.
        for item in items:
            kind = type(item)
            if kind is str:
                continue
            if kind is dict or kind is list:
                containers.append(item)
            elif kind is int:
                if not lowest < item < highest:
                    return False
            elif kind is float:
                if not _is_alike(item):
                    return False
            elif kind is not NoneType and kind is not bool:
                return False
        if not containers:
            return True
        if len(containers) > _MANY:  # shared or cyclic parts would double at each level
            containers = list({id(part): part for part in containers}.values())
    return False


def _have_text_keys(containers: list[Any]) -> bool:
    return all(type(key) is str for c in containers if type(c) is dict for key in c)


def _is_alike(number: float) -> bool:
    """True for a fraction that ``pydantic_core`` and JavaScript lay out alike."""
    return _SMALLEST_ALIKE <= abs(number) < _LARGEST_ALIKE and not number.is_integer()


class _Plainer:
    """Walks one value and builds its plain form; knows where it is, for errors."""

    def __init__(self, *, lenient: bool, path_prefix: str) -> None:
        self._lenient = lenient
        self._prefix = path_prefix
        self._path: list[str | int] = []
        self._open: set[int] = set()
        self._depth = 0

    def plain(self, value: Any) -> Any:
        """The plain form of a whole value; one walker walks once."""
        plain = self._plain(value)
        if plain is UNDEFINED:
            raise self._refusal("is undefined")
        return plain

    def _plain(self, value: Any) -> Any:
        kind = type(value)
        if kind is dict:
            return self._object(value)
        if kind is list:
            return self._array(value)
        if kind is str:
            return self._string(value)
        if kind is bool or value is None:
            return value
        if kind is int:
            return self._integer(value)
        if kind is float:
            return self._number(value)
        if kind is datetime:
            return self._time(value)
        return self._converted(value)

    def _converted(self, value: Any) -> Any:
        """The plain form of anything but exact str, int, bool, None, dict and list."""
        if value is UNDEFINED or value is UNSET:
            return UNDEFINED
        if isinstance(value, type) or (callable(value) and not _has_fields(value)):
            raise self._refusal(f"is {_described(value)}")
        converted = self._scalar(value)
        if converted is not NotImplemented:
            return converted
        return self._container(value)

    def _scalar(self, value: Any) -> Any:
        match value:
            case Enum():
                return self._plain(value.value)
            case str():
                return self._string(str.__str__(value))
            case int():
                return self._integer(int(value))
            case float():
                return self._number(float(value))
            case datetime():
                return self._time(value)
            case date() | time():
                return value.isoformat()
            case timedelta():
                return self._number(value.total_seconds())
            case Decimal() | UUID():
                return str(value)
            case bytes() | bytearray() | memoryview():
                return base64.b64encode(value).decode("ascii")
            case _:
                return NotImplemented

    def _container(self, value: Any) -> Any:
        if _has_fields(value) or isinstance(value, MastraError):
            self._open_up(value)
            plain = self._plain(_wire_form(value))
            self._open.discard(id(value))
            return plain
        match value:
            case Mapping():
                return self._object(value)
            case AbstractSet():
                # Sets have no order; this one is the same in every process.
                return sorted(self._array(list(value)), key=_write)
            case Sequence():
                return self._array(value)
            case _:
                raise self._refusal(f"is {_described(value)}")

    def _object(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        self._go_deeper(value)
        written: dict[str, Any] = {}
        for key, item in value.items():
            name = self._string(key if type(key) is str else self._key(key))
            self._path.append(name)
            plain = self._plain(item)
            if plain is not UNDEFINED:
                if name in written:
                    raise self._refusal("has the name of another member once keys are text")
                written[name] = plain
            self._path.pop()
        self._come_back(value)
        return written

    def _array(self, value: Sequence[Any]) -> list[Any]:
        self._go_deeper(value)
        written = []
        for index, item in enumerate(value):
            self._path.append(index)
            plain = self._plain(item)
            written.append(None if plain is UNDEFINED else plain)
            self._path.pop()
        self._come_back(value)
        return written

    def _key(self, key: Any) -> str:
        """The text of a key that isn't a string, as JavaScript would write it."""
        match key:
            case Enum():
                return self._key(key.value)
            case str():
                return str.__str__(key)
            case None | bool() | int() | float():
                return js_string(key)
            case datetime():
                return str(self._time(key))
            case date() | UUID() | Decimal():
                return str(key)
            case _:
                raise self._refusal(f"has a key that is {_described(key)}")

    def _string(self, value: str) -> str:
        if value.isascii() or not _SURROGATE.search(value):
            return value
        return join_surrogates(value)

    def _integer(self, value: int) -> int:
        if not -_HUGE < value < _HUGE:
            try:
                str(value)
            except ValueError as exc:
                raise self._refusal("is an integer with too many digits") from exc
        return value

    def _number(self, value: float) -> float | None:
        if not math.isfinite(value):
            if self._lenient:
                return None
            raise self._refusal(f"is {js_number(value)}")
        if value.is_integer() and abs(value) < _FIRST_WITH_EXPONENT:
            # Above 2^53 JavaScript's shortest digits are not those of the exact integer.
            return int(js_number(value))
        return value

    def _time(self, value: datetime) -> str:
        if value.utcoffset() is None:
            if not self._lenient:
                raise self._refusal("is a naive time; give it a time zone")
            value = value.replace(tzinfo=UTC)
        try:
            return to_iso_ms(value)
        except WireEncodeError as exc:
            raise self._refusal("is outside the years 1 to 9999 in UTC") from exc

    # A refusal ends the whole walk, so nothing is undone on the way out.

    def _go_deeper(self, container: Any) -> None:
        if self._depth >= MAX_DEPTH:
            raise self._refusal(f"is nested more than {MAX_DEPTH} levels deep")
        self._depth += 1
        self._open_up(container)

    def _come_back(self, container: Any) -> None:
        self._depth -= 1
        self._open.discard(id(container))

    def _open_up(self, container: Any) -> None:
        if id(container) in self._open:
            raise self._refusal("contains itself")
        self._open.add(id(container))

    def _refusal(self, reason: str) -> WireEncodeError:
        return WireEncodeError(path=self._prefix + json_path(self._path), reason=reason)


def _has_fields(value: Any) -> bool:
    return dataclasses.is_dataclass(value) or hasattr(type(value), "model_dump")


def _wire_form(value: Any) -> Any:
    """What a model, a dataclass or an error of ours looks like outside."""
    kind = type(value)
    if hasattr(kind, "to_wire"):
        return value.to_wire()
    if hasattr(kind, "model_dump"):
        return value.model_dump(mode="python", by_alias=True)
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _described(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    kind = type(value)
    place = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"a {place}{kind.__qualname__}"


def _write(plain: Any) -> str:
    """JSON text of a plain value with numbers or strings that only we write right."""
    match plain:
        case str():
            return quote(plain)
        case None:
            return "null"
        case bool() | int() | float():
            return js_number(plain)
        case list():
            return f"[{','.join(map(_write, plain))}]"
        case _:
            members = (f"{quote(name)}:{_write(item)}" for name, item in plain.items())
            return f"{{{','.join(members)}}}"


_IDENTIFIER: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


def json_path(keys: Sequence[str | int]) -> str:
    """The keys as a JSON path behind its root: ``.context.step[0]["odd name"]``."""
    return "".join(map(_path_member, keys))


def _path_member(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _IDENTIFIER.fullmatch(key) else f"[{quote(key)}]"


def json_paths_by_size(value: Any, n: int = 10) -> list[tuple[str, int]]:
    """
    The ``n`` largest parts of a value, largest first, as (JSON path, bytes when written).

    A part that is little more than one of its own members is left out in favour of it.
    """
    found: list[tuple[str, int]] = []
    _measure(sanitize_copy(value, lenient=True), "$", found)
    parts = [part for part in found if part[0] != "$"] or found
    return sorted(parts, key=lambda part: (-part[1], part[0]))[:n]


#: A container is listed if its largest member holds at most this share of it.
_LISTED_SHARE: Final = 0.9


def _measure(plain: Any, path: str, found: list[tuple[str, int]]) -> int:
    """The size of a part when written; it and its parts are added to ``found``."""
    match plain:
        case dict():
            members = [
                (len(quote(name).encode()) + 1, path + _path_member(name), item)
                for name, item in plain.items()
            ]
        case list():
            members = [(0, f"{path}[{index}]", item) for index, item in enumerate(plain)]
        case _:
            size = len(_write(plain).encode())
            found.append((path, size))
            return size
    sizes = [(extra, _measure(item, part, found)) for extra, part, item in members]
    total = 2 + max(0, len(members) - 1) + sum(extra + size for extra, size in sizes)
    if max((size for _, size in sizes), default=0) <= total * _LISTED_SHARE:
        found.append((path, total))
    return total
