"""Numbers and strings as JavaScript spells them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from decimal import Decimal
from enum import Enum
from json.encoder import encode_basestring
from typing import Any, Final

from mastra_core.base.isotime import to_iso_ms
from mastra_core.base.unset import UNDEFINED, UNSET

__all__ = ("join_surrogates", "js_number", "js_string", "quote")

#: From here on JavaScript writes an exponent.
_FIRST_LARGE: Final = 21
#: Below 10 to this power JavaScript writes an exponent.
_LAST_SMALL: Final = -7
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def js_number(value: float) -> str:
    """
    The number as ``String(n)`` gives it: ``1`` for 1.0, ``1e+21``, ``NaN``, ``0`` for -0.0.

    Integers of any size are written exactly; JavaScript itself would round them.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value == 0:
        return "0"
    # Both languages choose the shortest digits that read back; only the layout differs.
    sign, digits, exponent = Decimal(float.__repr__(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    return ("-" if sign else "") + _layout(text, len(text) + exponent)


def _layout(digits: str, point: int) -> str:
    """The digits with the decimal point after so many of them (ECMAScript Number::toString)."""
    count = len(digits)
    if count <= point <= _FIRST_LARGE:
        return digits + "0" * (point - count)
    if 0 < point <= _FIRST_LARGE:
        return f"{digits[:point]}.{digits[point:]}"
    if _LAST_SMALL + 1 < point <= 0:
        return "0." + "0" * -point + digits
    power = f"{'+' if point > 0 else '-'}{abs(point - 1)}"
    mantissa = digits if count == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{mantissa}e{power}"


def js_string(value: Any) -> str:
    """The value as ``String(v)`` gives it; times as ISO text, enum members as their value."""
    match value:
        case str():
            return str.__str__(value)
        case None:
            return "null"
        case _ if value is UNDEFINED or value is UNSET:
            return "undefined"
        case Enum():
            return js_string(value.value)
        case bool() | int() | float():
            return js_number(value)
        case datetime():
            return to_iso_ms(value)
        case Mapping():
            return "[object Object]"
        case list() | tuple() | AbstractSet():
            return ",".join("" if _is_nothing(item) else js_string(item) for item in value)
        case _:
            return str(value)


def _is_nothing(value: Any) -> bool:
    return value is None or value is UNDEFINED or value is UNSET


def quote(text: str) -> str:
    """The string as ``JSON.stringify`` writes it: non-ASCII raw, lone surrogates escaped."""
    written = encode_basestring(text)
    if written.isascii() or _SURROGATE.search(written) is None:
        return written
    return _SURROGATE.sub(lambda m: f"\\u{ord(m[0]):04x}", join_surrogates(written))


def join_surrogates(text: str) -> str:
    """The string with each pair of surrogates as the one character that JavaScript sees."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
