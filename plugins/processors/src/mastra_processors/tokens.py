"""How many tokens a text has, about: no vocabulary, no download, good enough for limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from mastra_core.base.jsonjs import encode

__all__ = ("PER_TURN", "TokenCounter", "cut_to_tokens", "estimate_tokens", "tokens_of_turn")

#: Counts the tokens of a text; hand in the one of your model for exact limits.
TokenCounter = Callable[[str], int]

#: What the frame of one turn costs beside its content.
PER_TURN: Final = 4
#: A file costs about this much, whatever is in it.
_PER_FILE: Final = 256
#: Words that most vocabularies hold in one piece are about this long.
_WORD: Final = 6
#: Letters per token in longer words, and in scripts other than Latin.
_PIECE: Final = 4
_OTHER_PIECE: Final = 2

_PIECES: Final = re.compile(
    r"(?P<word>[A-Za-z]+)"
    r"|(?P<number>\d{1,3})"
    r"|(?P<wide>[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff])"
    r"|(?P<other>[^\W\d_]+)"
    r"|(?P<lines>\n+)"
    r"|(?P<sign>[^\w\s]|_)"
)


def estimate_tokens(text: str) -> int:
    """About how many tokens a model sees in a text; for English within a fifth or so."""
    count = 0
    for match in _PIECES.finditer(text):
        length = match.end() - match.start()
        match match.lastgroup:
            case "word":
                count += 1 if length <= _WORD else -(-length // _PIECE)
            case "other":
                count += -(-length // _OTHER_PIECE)
            case _:
                count += 1
    return count


def tokens_of_turn(turn: Mapping[str, Any], count: TokenCounter) -> int:
    """The tokens of one turn of a prompt, its frame included."""
    content = turn.get("content")
    if isinstance(content, str):
        return PER_TURN + count(content)
    return PER_TURN + sum(_of_part(part, count) for part in content or ())


def _of_part(part: Mapping[str, Any], count: TokenCounter) -> int:
    match part.get("type"):
        case "text" | "reasoning":
            return count(str(part.get("text", "")))
        case "tool-call":
            return count(str(part.get("toolName", ""))) + count(encode(part.get("input")))
        case "tool-result":
            # The arguments stand in the call; the result repeats them for our own use only.
            return count(str(part.get("toolName", ""))) + _of_output(part.get("output"), count)
        case "file" | "image":
            return _PER_FILE
        case _:
            return count(encode(part))


def _of_output(output: Any, count: TokenCounter) -> int:
    value = output.get("value") if isinstance(output, Mapping) else output
    return count(value if isinstance(value, str) else encode(value))


def cut_to_tokens(text: str, limit: int, count: TokenCounter) -> str:
    """The longest beginning of a text that has no more than ``limit`` tokens."""
    if limit <= 0:
        return ""
    fits, too_long = 0, 8 * limit
    while count(text[:too_long]) <= limit:
        if too_long >= len(text):
            return text
        fits, too_long = too_long, 2 * too_long
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if count(text[:middle]) <= limit:
            fits = middle
        else:
            too_long = middle
    return text[:fits]
