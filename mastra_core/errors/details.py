"""What an error may carry besides its sentence: plain JSON values, without secrets.

Lives in the lowest room so that every error cleans itself. Code that only
wants to print a URL uses ``base.redact``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time
from enum import Enum
from typing import TypeAlias

__all__ = (
    "REDACTED",
    "JsonDetail",
    "clean_details",
    "cut_ids",
    "is_secret_name",
    "is_secret_parameter",
    "reason_of",
    "redact_text",
    "shown",
)

#: What a member of ``details`` may be: a JSON scalar, or a list or dict of such values.
JsonDetail: TypeAlias = "str | int | float | bool | list[JsonDetail] | dict[str, JsonDetail] | None"

#: Stands where a secret was.
REDACTED = "***"

_MAX_DEPTH = 6
#: How much of an id or of a refused value a sentence repeats.
_MAX_SHOWN = 100
_ID_NAME = re.compile(r"(^i|I|_i)ds?$")
_SECRET_WORDS = (
    "password",
    "passwd",
    "pwd",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "authkey",
    "credential",
    "authorization",
    "signature",
    "cookie",
)
#: ``max_tokens`` and its like count tokens and hold none.
_COUNTS_TOKENS = re.compile(r"tokens$|token(count|limit|usage)$")
_USERINFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*://)(?P<user>[^/?#\s:@]*):[^/?#\s]*@")
_QUERY_VALUE = re.compile(r"(?P<lead>[?&;])(?P<name>[^=&#\s?;]+)=(?P<value>[^&#\s;'\"]*)")


def is_secret_name(name: str) -> bool:
    """True if a setting or member of this name usually holds a secret."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    if _COUNTS_TOKENS.search(plain):
        return False
    return any(word in plain for word in _SECRET_WORDS) or plain in {"auth", "jwt"}


def is_secret_parameter(name: str) -> bool:
    """True if a query parameter of this name usually holds a secret; in URLs ``key`` is one."""
    return is_secret_name(name) or name.lower() in {"key", "sig"}


def redact_text(text: str) -> str:
    """The text with passwords and token-like query values of every URL in it replaced."""
    if "://" not in text:
        return text
    text = _USERINFO.sub(lambda m: f"{m['scheme']}{m['user']}:{REDACTED}@", text)
    return _QUERY_VALUE.sub(_redact_pair, text)


def _redact_pair(match: re.Match[str]) -> str:
    if not is_secret_parameter(match["name"]):
        return match[0]
    return f"{match['lead']}{match['name']}={REDACTED}"


def shown(value: object) -> str:
    """A value as a sentence repeats it: its ``repr``, cut if it is long."""
    if isinstance(value, str | bytes):
        # Only what is shown is rendered, whatever a caller was sent.
        cut = repr(value[:_MAX_SHOWN])
        return cut if len(value) <= _MAX_SHOWN else f"{cut[:-1]}…{cut[-1]}"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever it is, it must not hide what is said about it
        text = object.__repr__(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def reason_of(error: BaseException) -> str:
    """What an exception says of itself: its text, else its name."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - whoever fails can fail at saying so, too
        text = ""
    return text or type(error).__name__


def cut_ids(message: str, details: Mapping[str, JsonDetail]) -> str:
    """The sentence with long ids cut; ``details``, which names them, keeps them whole."""
    for name, value in details.items():
        if not _ID_NAME.search(name):
            continue
        for found in value if isinstance(value, list) else (value,):
            if isinstance(found, str) and len(found) > _MAX_SHOWN:
                message = message.replace(repr(found)[1:-1], shown(found)[1:-1])
                message = message.replace(found, f"{found[:_MAX_SHOWN]}…")
    return message


def clean_details(details: Mapping[str, object] | None) -> dict[str, JsonDetail]:
    """Plain JSON values under string keys; secrets and credentials of URLs are replaced."""
    if not details:
        return {}
    return {str(name): _clean_member(str(name), value, 0) for name, value in details.items()}


def _clean_member(name: str, value: object, depth: int) -> JsonDetail:
    if isinstance(value, str) and value and is_secret_name(name):
        return REDACTED
    return _clean(value, depth)


def _clean(value: object, depth: int) -> JsonDetail:
    plain = _clean_scalar(value)
    if plain is not NotImplemented:
        return plain  # type: ignore[return-value]  # NotImplemented was excluded above
    if depth >= _MAX_DEPTH:
        return redact_text(repr(value))
    if isinstance(value, Mapping):
        return {str(k): _clean_member(str(k), v, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item, depth + 1) for item in value]
    if isinstance(value, AbstractSet):
        return sorted((_clean(item, depth + 1) for item in value), key=repr)
    return redact_text(str(value))


def _clean_scalar(value: object) -> object:
    """The JSON scalar that stands for the value; ``NotImplemented`` for anything larger."""
    match value:
        case Enum():
            return _clean_scalar(value.value)
        case None | bool():
            return value
        case str():
            return redact_text(str(value))
        case int():
            return int(value)
        case float():
            return float(value) if math.isfinite(value) else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case BaseException():
            return redact_text(f"{type(value).__name__}: {value}")
        case _:
            return NotImplemented
