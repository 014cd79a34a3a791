"""JSON text on its way into a ``jsonb`` column and back, without loss (snapshots.md G13).

``jsonb`` refuses NUL and lone surrogates, and writes ``1e+30`` as thirty digits, which reads
back as another number. A text with such characters is stored escaped, behind a member that
says so; a large fraction is stored with its digits and ``.0``. Both are rare, so the way in
is a look for the few characters that matter, and the way back a look at the first bytes:
the flag's empty name is sorted before all others by ``jsonb``.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

from mastra_core.base.jsonjs import decode, encode

__all__ = ("FLAG", "from_column", "to_column")

FLAG: Final = ""
"""Top-level member that says that the texts of a document are escaped."""

_ESCAPED: Final = "pg-esc1"
#: Holds what isn't an object, or has a member of the flag's name itself.
_VALUE: Final = "value"
_MARK: Final = "\uf8ff"

_FLAGGED: Final = f'{{"{FLAG}": "{_ESCAPED}"'.encode()
_LOOKS_FLAGGED: Final = f'"{FLAG}":"{_ESCAPED}"'.encode()
_ODD: Final = re.compile(rf"\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{{2}})|(\\.)|{_MARK}")
_MARKED: Final = re.compile(rf"{_MARK}(?:{_MARK}|([0-9a-fA-F]{{4}}))")
_NUMBER_OR_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.]*e\+[0-9]+')


def to_column(data: bytes) -> bytes:
    """The JSON text as the column can hold it."""
    # One byte is found much faster than two, and mostly it isn't there.
    if b"+" in data and b"e+" in data:
        data = _NUMBER_OR_TEXT.sub(_with_digits, data.decode()).encode()
    if (b"\\" in data and b"\\u" in data and _has_odd(data)) or _LOOKS_FLAGGED in data:
        return _flagged(_ODD.sub(_mark, data.decode())).encode()
    return data


def from_column(data: bytes) -> str:
    """The JSON text that was given to ``to_column``, apart from order and blanks."""
    return _unescaped(data.decode()) if data.startswith(_FLAGGED) else data.decode()


def _has_odd(data: bytes) -> bool:
    return any(match[1] for match in _ODD.finditer(data.decode()))


def _with_digits(match: re.Match[str]) -> str:
    found = match[0]
    return found if found.startswith('"') else f"{Decimal(found):f}.0"


def _mark(match: re.Match[str]) -> str:
    if match[1]:
        return _MARK + match[1]
    return match[2] or _MARK * 2


def _flagged(text: str) -> str:
    value = decode(text)
    if isinstance(value, dict) and FLAG not in value and value.keys() != {_VALUE}:
        return _spread(encode({FLAG: _ESCAPED, **value}))
    return _spread(encode({FLAG: _ESCAPED, _VALUE: value}))


def _spread(text: str) -> str:
    """``encode`` writes large fractions with an exponent again."""
    return _NUMBER_OR_TEXT.sub(_with_digits, text) if "e+" in text else text


def _unescaped(text: str) -> str:
    value = decode(text)
    del value[FLAG]
    plain: Any = value[_VALUE] if value.keys() == {_VALUE} else value
    return _MARKED.sub(_unmark, encode(plain))


def _unmark(match: re.Match[str]) -> str:
    return f"\\u{match[1]}" if match[1] else _MARK
