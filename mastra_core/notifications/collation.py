"""The order of source names in a summary: the root collation, as far as names need it."""

from __future__ import annotations

import unicodedata
from typing import Final

__all__ = ("collation_key",)

#: Characters that come before letters, in their order (notifications.md 5.2).
_ORDER: Final = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
_RANKS: Final = {character: rank for rank, character in enumerate(_ORDER)}


def collation_key(text: str) -> tuple[tuple[int, ...], tuple[str, ...], tuple[bool, ...], str]:
    """
    Sort key: letters regardless of accent and case, then accents, then lower before upper.

    Characters outside the list come after ``z``, by code point.
    """
    letters: list[int] = []
    accents: list[str] = []
    uppers: list[bool] = []
    for character in unicodedata.normalize("NFD", text):
        if unicodedata.combining(character):
            if accents:
                accents[-1] += character
            continue
        if unicodedata.category(character) in {"Cc", "Cf"}:
            continue  # control characters don't count
        for folded in character.casefold():
            letters.append(_RANKS.get(folded, len(_ORDER) + ord(folded)))
            accents.append("")
            uppers.append(character.isupper())
    return tuple(letters), tuple(accents), tuple(uppers), text
