"""Matches of rules in a text, and the text without them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mastra_processors.regex_presets import Rule

__all__ = ("Match", "Region", "find_matches", "redacted", "regions_of")


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What one rule matched."""

    rule: Rule
    start: int
    end: int
    text: str

    def to_wire(self) -> dict[str, Any]:
        """As metadata carry it."""
        return {"rule": self.rule.name, "match": self.text, "index": self.start}


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A piece of text that matches cover together; regions never overlap."""

    start: int
    end: int
    matches: tuple[Match, ...]

    @property
    def widest(self) -> Match:
        """The match whose rule says what stands in its place."""
        return max(self.matches, key=lambda match: match.end - match.start)

    def replacement(self) -> str:
        """What stands in its place; groups of the pattern may be named in it."""
        match = self.widest
        if len(self.matches) > 1 or "\\" not in match.rule.replacement:
            return match.rule.replacement
        found = match.rule.pattern.fullmatch(match.text)
        if found is None:
            # It matched because of what stands around it; nothing of it may stay.
            return match.rule.replacement
        try:
            return found.expand(match.rule.replacement)
        except (re.error, IndexError):
            return match.rule.replacement

    def to_wire(self, *, with_value: str | None) -> dict[str, Any]:
        """As a report of redactions carries it."""
        told: dict[str, Any] = {
            "rule": self.widest.rule.name,
            "index": self.start,
            "length": self.end - self.start,
            "replacement": self.replacement(),
        }
        names = list(dict.fromkeys(match.rule.name for match in self.matches))
        if len(names) > 1:
            told["overlappingRules"] = names
        if with_value is not None:
            told["value"] = with_value
        return told


def find_matches(text: str, rules: Iterable[Rule], *, start: int = 0) -> Iterator[Match]:
    """All matches from ``start`` on, rule by rule; empty ones don't count."""
    for rule in rules:
        for match in rule.pattern.finditer(text, start):
            if match.end() > match.start():
                yield Match(rule=rule, start=match.start(), end=match.end(), text=match[0])


def regions_of(matches: Iterable[Match]) -> list[Region]:
    """The matches in order, those that overlap together."""
    regions: list[Region] = []
    for match in sorted(matches, key=lambda match: (match.start, -match.end)):
        if regions and match.start < regions[-1].end:
            last = regions.pop()
            regions.append(
                Region(
                    start=last.start,
                    end=max(last.end, match.end),
                    matches=(*last.matches, match),
                )
            )
        else:
            regions.append(Region(start=match.start, end=match.end, matches=(match,)))
    return regions


def redacted(
    text: str, regions: Sequence[Region], *, start: int = 0, end: int | None = None
) -> str:
    """The text between two places, in which no region may be cut, with all regions replaced."""
    pieces: list[str] = []
    place = start
    end = len(text) if end is None else end
    for region in regions:
        if region.start >= end:
            break
        pieces += [text[place : region.start], region.replacement()]
        place = region.end
    pieces.append(text[place:end])
    return "".join(pieces)
