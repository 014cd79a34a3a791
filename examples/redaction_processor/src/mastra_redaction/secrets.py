"""What a secret looks like."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Final

from mastra_redaction.settings import Kind

__all__ = ("MAX_LENGTH", "find_secrets", "masked")

MAX_LENGTH: Final = 200
"""Longer secrets aren't found."""

_PATTERNS: Final = MappingProxyType(
    {
        "email": re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{2,63}){1,3}"),
        "card": re.compile(r"\b\d(?:[ -]?\d){12,18}\b"),
        "key": re.compile(r"\b(?:sk|pk|ghp|xoxb)[-_][A-Za-z0-9_-]{16,160}\b"),
    }
)


def find_secrets(text: str, kinds: Iterable[Kind]) -> Iterator[tuple[Kind, re.Match[str]]]:
    """The secrets in a text, kind by kind."""
    for kind in kinds:
        for match in _PATTERNS[kind].finditer(text):
            if kind != "card" or _has_check_digit(match[0]):
                yield kind, match


def masked(text: str, kinds: Iterable[Kind], mask: str) -> str:
    """The text with each secret replaced."""
    for kind in kinds:
        for _, match in reversed(list(find_secrets(text, [kind]))):
            text = f"{text[: match.start()]}{mask.format(kind=kind)}{text[match.end() :]}"
    return text


def _has_check_digit(number: str) -> bool:
    """Whether the last digit of a card number fits the others (Luhn)."""
    digits = [int(character) for character in number if character.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
