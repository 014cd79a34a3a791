"""Comparing classes with contracts."""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from mastra_conformance.contract import signature_faults

__all__ = ()


class Door(Protocol):
    """A contract."""

    async def open(self, key: str, *, slowly: bool = False) -> bool: ...

    def knock(self, times: int = 1) -> None: ...


class Right:
    """Fulfils it, with an addition that callers can't notice."""

    async def open(self, key: str, *, slowly: bool = False, quietly: bool = True) -> bool:
        return slowly

    def knock(self, times: int = 1) -> None:
        """Knock."""


class Renamed(Right):
    async def open(self, token: str, *, slowly: bool = False) -> bool:  # type: ignore[override]
        return slowly


class Positional(Right):
    async def open(self, key: str, slowly: bool = False) -> bool:  # type: ignore[override]
        return slowly


class OtherDefault(Right):
    def knock(self, times: int = 2) -> None:
        """Knock."""


class Blocking(Right):
    def open(self, key: str, *, slowly: bool = False) -> bool:  # type: ignore[override]
        return slowly


class Demanding(Right):
    def knock(self, times: int = 1, *, loudly: bool) -> None:  # type: ignore[override]
        """Knock."""


class Missing:
    async def open(self, key: str, *, slowly: bool = False) -> bool:
        return slowly


def test_a_right_class_has_no_faults() -> None:
    """Optional keyword-only additions are nobody's business."""
    assert [] == signature_faults(Door, Right())


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (Renamed, "Renamed.open has no parameter 'key'."),
        (Positional, "Positional.open: 'slowly' is positional or keyword, not keyword-only."),
        (OtherDefault, "OtherDefault.knock: 'times' has the default 2, not 1."),
        (Blocking, "Blocking.open must be awaited."),
        (Demanding, "Demanding.knock has a parameter 'loudly' that the contract doesn't know."),
        (Missing, "Door.knock is missing."),
    ],
)
def test_each_difference_is_a_sentence(wrong: type[Any], fault: str) -> None:
    """It names class, method, parameter, and what was expected."""
    assert fault in signature_faults(Door, wrong())
