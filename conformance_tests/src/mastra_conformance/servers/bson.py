"""As much of MongoDB's binary documents as asking a server for its state takes.

The suite depends on no driver; commands and answers hold the few kinds of values here.
Other kinds in an answer end the reading: what was read before them is returned.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

__all__ = ("read_document", "write_document")

_DOUBLE, _STRING, _DOCUMENT, _ARRAY, _BINARY, _OBJECT_ID, _BOOLEAN = 1, 2, 3, 4, 5, 7, 8
_DATE, _NULL, _INT32, _TIMESTAMP, _INT64 = 9, 10, 16, 17, 18

#: Values of a fixed size: how they are packed.
_FIXED = {_DOUBLE: "<d", _DATE: "<q", _INT32: "<i", _TIMESTAMP: "<Q", _INT64: "<q", _BOOLEAN: "<?"}
_SKIPPED = {_OBJECT_ID: 12, _NULL: 0}


def write_document(members: Mapping[str, object]) -> bytes:
    """The bytes of a document of texts, numbers, documents and lists."""
    body = b"".join(_written(name, value) for name, value in members.items()) + b"\0"
    return struct.pack("<i", len(body) + 4) + body


def _written(name: str, value: object) -> bytes:
    match value:
        case bool():
            kind, data = _BOOLEAN, struct.pack("<?", value)
        case int():
            kind, data = _INT32, struct.pack("<i", value)
        case str():
            text = value.encode() + b"\0"
            kind, data = _STRING, struct.pack("<i", len(text)) + text
        case Mapping():
            kind, data = _DOCUMENT, write_document(value)
        case Sequence():
            numbered = {str(index): item for index, item in enumerate(value)}
            kind, data = _ARRAY, write_document(numbered)
        case _:
            raise TypeError(f"{type(value).__name__} isn't needed in a command.")
    return bytes([kind]) + name.encode() + b"\0" + data


def read_document(data: bytes) -> dict[str, object]:
    """The members of a document; lists are documents with numbers as names."""
    return dict(_members(data))


def _members(data: bytes) -> Iterator[tuple[str, object]]:
    at = 4
    while at < len(data) and data[at] != 0:
        kind = data[at]
        end = data.index(b"\0", at + 1)
        name = data[at + 1 : end].decode()
        at = end + 1
        if kind in _FIXED:
            (value,) = struct.unpack_from(_FIXED[kind], data, at)
            yield name, value
            at += struct.calcsize(_FIXED[kind])
            continue
        if kind in _SKIPPED:
            at += _SKIPPED[kind]
            continue
        (size,) = struct.unpack_from("<i", data, at)
        if kind == _STRING:
            yield name, data[at + 4 : at + 3 + size].decode()
            at += 4 + size
        elif kind in {_DOCUMENT, _ARRAY}:
            yield name, read_document(data[at : at + size])
            at += size
        elif kind == _BINARY:
            at += 5 + size
        else:
            return
