"""URLs without their secrets, for messages, logs and reports."""

from __future__ import annotations

import re
from typing import Final

from mastra_core.errors.details import REDACTED, is_secret_name, is_secret_parameter, redact_text

__all__ = ("REDACTED", "is_secret_name", "redact_text", "redact_url")

#: Up to the last ``@`` before path, query or fragment; the password may hold an ``@``.
_USERINFO: Final = re.compile(r"^(?P<scheme>[^/?#]*?://)(?P<info>[^/?#]*)@")
_PAIR: Final = re.compile(r"(?P<lead>[?&;#])(?P<name>[^=&;#]+)=(?P<value>[^&;#]*)")


def redact_url(url: str) -> str:
    """
    The URL with its password and every token-like query value replaced.

    Anything may be given, also text that isn't a URL; user names stay, except
    where a lone one is the secret (``scheme://token@host``, more than 20 characters).
    """
    url = _USERINFO.sub(lambda m: f"{m['scheme']}{_redact_userinfo(m['info'])}@", url)
    return _PAIR.sub(_redact_pair, url)


def _redact_userinfo(info: str) -> str:
    user, colon, password = info.partition(":")
    if colon:
        return f"{user}:{REDACTED}" if password else info
    return REDACTED if len(user) > _LONGEST_USER else user


_LONGEST_USER: Final = 20


def _redact_pair(match: re.Match[str]) -> str:
    if match["value"] and is_secret_parameter(match["name"]):
        return f"{match['lead']}{match['name']}={REDACTED}"
    return match[0]
