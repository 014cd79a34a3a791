"""Snapshot documents between JSON and BSON (snapshots.md 13.4, G12, G13).

A snapshot stands in its row as a sub-document of native values. Texts that BSON can't hold
are written with the reversible escapes of G13 and a flag at the top; integers beyond 64 bits
stand under ``ODD``. Old data may hold the whole document as JSON text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import bson
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument

from mastra_core.base import jsonjs
from mastra_core.errors import (
    StorageDataError,
    WireDecodeError,
    WireEncodeError,
    snapshot_too_large,
)
from mastra_core.rules import snapshots as rules
from mastra_mongodb.documents import JSON, ODD

__all__ = (
    "ESCAPED",
    "encode_part",
    "encode_snapshot",
    "snapshot_from_row",
    "version_from_row",
)

ESCAPED: Final = "pg-esc1"
"""Value of the top-level member ``encoding`` of a document with escapes."""

_FLAG: Final = "encoding"
_MARK: Final = "\uf8ff"
_MARK_BYTES: Final = _MARK.encode()
#: What has to be escaped in a document with the flag.
_TO_ESCAPE: Final = re.compile("[\uf8ff\x00\ud800-\udfff]")
_ESCAPES: Final = re.compile("\uf8ff(\uf8ff|[0-9a-f]{4})")
_LIMIT_64: Final = 2**63
#: What the row around a snapshot may take of the 16 MiB.
_ROW_BYTES: Final = 64 * 1024
_DOCUMENT_BYTES: Final = 16 * 1024 * 1024 - _ROW_BYTES


# -- writing ----------------------------------------------------------------------------------


def encode_snapshot(snapshot: Mapping[str, Any], *, run_id: str, max_bytes: int) -> RawBSONDocument:
    """
    The document as BSON, complete or not at all.

    Raises:
        WireEncodeError: Something has no JSON form; the path says what.
        StorageArgumentError: It is over the limit (id ``SNAPSHOT_TOO_LARGE``).
    """
    if type(snapshot) is dict and jsonjs.is_plain(snapshot):
        plain = snapshot
    else:
        plain = jsonjs.decode(rules.encode_snapshot(snapshot, run_id=run_id, max_bytes=2**62))
    encoded = _bson(plain)
    limit = min(max_bytes, _DOCUMENT_BYTES)
    if len(encoded) > limit:
        # BSON is often larger than JSON; what counts first is the limit on JSON.
        rules.check_size(plain, len(jsonjs.encode_bytes(plain)), run_id=run_id, max_bytes=max_bytes)
        if len(encoded) > _DOCUMENT_BYTES:
            largest = jsonjs.json_paths_by_size(plain, 10)
            raise snapshot_too_large(
                run_id=run_id, size=len(encoded), limit=_DOCUMENT_BYTES, largest=largest
            )
    return RawBSONDocument(encoded)


def encode_part(value: Mapping[str, Any], path: str = "$") -> dict[str, Any] | None:
    """
    Members that the server may merge into any document; None if they need escapes.

    Raises:
        WireEncodeError: Something has no JSON form.
    """
    plain: dict[str, Any] = jsonjs.sanitize_copy(value, path_prefix=path)
    try:
        encoded = bson.encode(plain)
    except (BSONError, UnicodeEncodeError, OverflowError):
        return None
    return None if _MARK_BYTES in encoded else plain


def _bson(plain: Mapping[str, Any]) -> bytes:
    if plain.get(_FLAG) != ESCAPED:
        try:
            return bson.encode(plain)
        except (BSONError, UnicodeEncodeError, OverflowError):
            pass
    escaped: dict[str, Any] = _mapped(plain, _escape, _wrap)
    if _FLAG in escaped:
        raise WireEncodeError(
            path=f"$.{_FLAG}", reason="has the name of the member that marks escaped documents"
        )
    try:
        return bson.encode({_FLAG: ESCAPED, **escaped})
    except (BSONError, UnicodeEncodeError, OverflowError) as exc:
        raise WireEncodeError(path="$", reason=f"can't be held by MongoDB: {exc}") from exc


def _escape(text: str) -> str:
    return _TO_ESCAPE.sub(lambda match: _escaped(match[0]), text)


def _escaped(character: str) -> str:
    return _MARK * 2 if character == _MARK else f"{_MARK}{ord(character):04x}"


def _unescape(text: str) -> str:
    return _ESCAPES.sub(lambda match: _MARK if match[1] == _MARK else chr(int(match[1], 16)), text)


def _wrap(value: Any) -> Any:
    if type(value) is int and not -_LIMIT_64 <= value < _LIMIT_64:
        return {ODD: str(value)}
    if type(value) is dict and len(value) == 1 and ODD in value:
        return {ODD: jsonjs.encode(value)}
    return value


def _unwrap(value: Any) -> Any:
    if type(value) is dict and len(value) == 1 and ODD in value:
        return jsonjs.decode(value[ODD])
    return value


def _mapped(value: Any, text: Callable[[str], str], other: Callable[[Any], Any]) -> Any:
    """The value with each text and then each other value replaced."""
    kind = type(value)
    if kind is str:
        return text(value)
    changed = other(value)
    if changed is not value:
        return changed
    if kind is dict:
        return {text(key): _mapped(item, text, other) for key, item in value.items()}
    if kind is list:
        return [_mapped(item, text, other) for item in value]
    return value


# -- reading ----------------------------------------------------------------------------------


def snapshot_from_row(stored: Any, *, run_id: str) -> dict[str, Any]:
    """
    The document of a row that was read raw.

    Raises:
        StorageDataError: It is no JSON object.
    """
    if isinstance(stored, RawBSONDocument):
        document = bson.decode(stored.raw, JSON)
    else:
        document = _parsed(stored, run_id)
    if document.get(_FLAG) == ESCAPED:
        del document[_FLAG]
        restored: dict[str, Any] = _mapped(document, _unescape, _unwrap)
        return restored
    return document


def _parsed(stored: Any, run_id: str) -> dict[str, Any]:
    try:
        document = jsonjs.decode(stored)
    except (WireDecodeError, TypeError) as exc:
        raise StorageDataError(
            f"The stored snapshot of run {run_id!r} is no JSON.", details={"runId": run_id}
        ) from exc
    if not isinstance(document, dict):
        raise StorageDataError(
            f"The stored snapshot of run {run_id!r} is no JSON object.", details={"runId": run_id}
        )
    return document


def version_from_row(updated_at: datetime, snapshot: Any) -> str:
    """The opaque token of a state of the row (G8): its time, and that of its document."""
    stamp = snapshot.get("timestamp") if isinstance(snapshot, Mapping) else None
    return f"{int(updated_at.timestamp() * 1000)}:{jsonjs.encode(stamp, lenient=True)}"
