"""Things that are open while somebody is inside one of their blocks."""

from __future__ import annotations

import pytest

from mastra_core.base.blocks import OpenInBlocks

pytestmark = pytest.mark.anyio


class Door(OpenInBlocks):
    def __init__(self) -> None:
        self.told: list[str] = []

    async def init(self) -> None:
        self.told.append("init")

    async def aclose(self) -> None:
        self.told.append("aclose")


async def test_only_the_last_block_closes() -> None:
    door = Door()

    async with door as first:
        async with door:
            pass
        assert ["init", "init"] == door.told

    assert first is door
    assert ["init", "init", "aclose"] == door.told


async def test_after_closing_it_may_be_opened_again() -> None:
    door = Door()

    for _ in range(2):
        async with door:
            pass

    assert ["init", "aclose"] * 2 == door.told
