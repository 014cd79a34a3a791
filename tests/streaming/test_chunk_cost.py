"""What one more chunk costs: nothing that a chunk needn't have."""

from __future__ import annotations

import cProfile
import pstats
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from mastra_core import Agent
from mastra_core.contracts.model import ModelPart, ModelRequest

pytestmark = pytest.mark.anyio

WORDS = 500


class Talker:
    """Says so many words without a pause."""

    provider = "test"
    model_id = "talker"

    def __init__(self, words: int) -> None:
        self._words = words

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        yield {"type": "text-start", "id": "t"}
        for _ in range(self._words):
            yield {"type": "text-delta", "id": "t", "delta": "word "}
        yield {"type": "text-end", "id": "t"}
        yield {"type": "finish", "finishReason": "stop", "usage": {}}


async def calls_of_a_run(words: int) -> Counter[str]:
    """How often each function was called while a run was made and read."""
    agent = Agent(id="a", model=Talker(words))
    await (await agent.stream("Hello")).wait()
    with cProfile.Profile() as profile:
        output = await agent.stream("Hello")
        async for _ in output.full_stream:
            pass
    await agent.aclose()
    calls: Counter[str] = Counter()
    for (file, _, name), facts in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        calls[f"{file}:{name}"] += facts[1]
    return calls


async def test_a_chunk_is_neither_validated_nor_copied_nor_encoded() -> None:
    """Chunks are plain values inside; only what comes from outside is checked."""
    few, many = await calls_of_a_run(1), await calls_of_a_run(WORDS)

    grown = {name for name, calls in many.items() if calls - few[name] >= WORDS}
    expensive = ("pydantic", "sanitize", "_copy_dict", "deepcopy", "jsonjs", "create_task")

    assert [] == [name for name in grown if any(word in name for word in expensive)]
    assert grown, "something is called for every chunk"
