"""Find short descriptions by words: enough to look for a tool or a skill."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

__all__ = ("SearchIndex",)

#: How fast further occurrences of a word count less, and how much length counts (Okapi BM25).
_SATURATION: Final = 1.2
_LENGTH: Final = 0.75
#: Words of a name say more than those of a description.
_NAME_WEIGHT: Final = 3

#: Words that say nothing about what somebody looks for.
_EMPTY: Final = frozenset(
    {
        *("a", "an", "and", "as", "at", "be", "by", "do", "for", "from", "how", "i", "in", "is"),
        *("it", "me", "my", "of", "on", "or", "that", "the", "this", "to", "what", "with", "you"),
    }
)
#: Shorter words have no plural that we know.
_SHORT: Final = 3

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")


class SearchIndex:
    """
    Names and descriptions, and how well they fit a question.

    Args:
        entries: Name → description.
    """

    def __init__(self, entries: Mapping[str, str]) -> None:
        self._counts = {
            name: Counter([*_words(name) * _NAME_WEIGHT, *_words(description)])
            for name, description in entries.items()
        }
        self._spread = Counter(word for counts in self._counts.values() for word in counts)
        lengths = [counts.total() for counts in self._counts.values()]
        self._mean = (sum(lengths) / len(lengths)) if lengths else 1.0

    def find(self, question: str, *, limit: int, min_score: float = 0.0) -> list[tuple[str, float]]:
        """
        The entries that fit best, best first, with a score above 0 and up to 1.

        1 is the best entry if it has all words of the question.
        """
        asked = set(_words(question))
        raw = {name: self._score(counts, asked) for name, counts in self._counts.items()}
        best = max(raw.values(), default=0.0)
        if best <= 0:
            return []
        scored = [
            (name, value / best * self._share(name, asked))
            for name, value in raw.items()
            if value > 0
        ]
        scored.sort(key=lambda item: (-item[1], item[0]))
        return [(name, round(score, 4)) for name, score in scored if score >= min_score][:limit]

    def _share(self, name: str, asked: set[str]) -> float:
        """How much of the question the entry has."""
        return sum(word in self._counts[name] for word in asked) / len(asked)

    def _score(self, counts: Counter[str], asked: set[str]) -> float:
        size = 1 - _LENGTH + _LENGTH * counts.total() / self._mean
        score = 0.0
        for word in asked:
            if count := counts[word]:
                spread = self._spread[word]
                rarity = math.log(1 + (len(self._counts) - spread + 0.5) / (spread + 0.5))
                score += rarity * count * (_SATURATION + 1) / (count + _SATURATION * size)
        return score


def _words(text: str) -> list[str]:
    """Words in lower case; ``createIssues`` is "create", "issue"."""
    words = (word.lower() for word in _WORD.findall(text))
    return [_stem(word) for word in words if word not in _EMPTY]


def _stem(word: str) -> str:
    """Plural and singular are one word."""
    if len(word) > _SHORT and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > _SHORT and word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word
