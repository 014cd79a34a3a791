"""The numbered cases of the specifications, and the mark that binds a test to them.

Which tests carry the mark is another question, see ``scan``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import pytest

from mastra_conformance.marks import CASE

__all__ = ("CaseIndex", "UnknownCaseError", "case", "case_index", "cases_of")


class UnknownCaseError(LookupError):
    """A test names a specification or a case that doesn't exist."""

    def __init__(self, spec: str, number: int | None, known: str) -> None:
        wanted = f"specification {spec!r}" if number is None else f"case {number!r} of {spec!r}"
        super().__init__(f"Unknown {wanted}. Known: {known}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseIndex:
    """Every numbered case: specification name to number to its sentence."""

    texts: Mapping[str, Mapping[int, str]]

    def check(self, spec: str, numbers: tuple[object, ...]) -> tuple[int, ...]:
        """
        The numbers as they are, if all of them exist.

        Raises:
            UnknownCaseError: The specification or one of the numbers is unknown.
        """
        known = self.texts.get(spec)
        if known is None:
            raise UnknownCaseError(spec, None, ", ".join(self.texts))
        for number in numbers:
            if type(number) is not int or number not in known:
                raise UnknownCaseError(spec, number, f"1 … {max(known)}")  # type: ignore[arg-type]  # whatever was written is shown
        return tuple(number for number in numbers if isinstance(number, int))

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)


@cache
def case_index() -> CaseIndex:
    """The index that this version of the suite ships."""
    raw = json.loads(files("mastra_conformance").joinpath("data/cases.json").read_text("utf-8"))
    return CaseIndex(
        texts=MappingProxyType(
            {
                spec: MappingProxyType({entry["n"]: entry["text"] for entry in entries})
                for spec, entries in raw.items()
            }
        )
    )


def case(spec: str, *numbers: int) -> pytest.MarkDecorator:
    """
    Say that a test proves numbered cases of a specification.

    Decorates functions and classes, and also works as a ``pytestmark`` or in
    ``pytest.param(..., marks=case("signals", 41))``.

    Args:
        spec: Name of the page without its ending, such as ``notifications``.
        numbers: The cases that this test alone would show to be broken.

    Raises:
        UnknownCaseError: There is no such page or case.
        ValueError: No number was given.
    """
    if not numbers:
        raise ValueError(f"case({spec!r}) names no case.")
    return getattr(pytest.mark, CASE)(spec, *case_index().check(spec, numbers))  # type: ignore[no-any-return]  # pytest builds marks by attribute


def cases_of(item: pytest.Item) -> list[tuple[str, int]]:
    """The cases that a collected test proves, in the order of the specifications."""
    found = {
        (str(mark.args[0]), number)
        for mark in item.iter_markers(CASE)
        for number in case_index().check(str(mark.args[0]), mark.args[1:])
    }
    return sorted(found)
