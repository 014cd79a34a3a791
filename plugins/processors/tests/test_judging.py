"""A judgement of a real model fits its type, whatever the model thinks."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from mastra_core.errors import ModelError
from mastra_core.testing.scripted_model import ScriptedModel
from mastra_processors.judging import judgement

pytestmark = pytest.mark.anyio


class Mood(BaseModel):
    """How a text sounds."""

    mood: Literal["friendly", "angry"]
    reason: str = Field(max_length=60)


@pytest.fixture
async def local() -> AsyncIterator[Any]:
    """The small model on this CPU. Without its weights the test is not run, and says so."""
    from mastra_models import LocalModel
    from mastra_models.errors import WeightsUnavailableError
    from mastra_models.weights import WEIGHTS, find_weights

    try:
        weights = find_weights(WEIGHTS["smollm2"])
    except WeightsUnavailableError as exc:
        if os.environ.get("MASTRA_REQUIRE_MODELS") == "1":
            pytest.fail(str(exc))
        pytest.skip(f"not run: {exc}")
    model = LocalModel(weights, model_id="smollm2")
    yield model
    await model.aclose()


@pytest.mark.timeout(300)
async def test_a_real_model_answers_in_the_form(local: Any) -> None:
    mood = await judgement(
        local, instructions="How does the text sound?", text="I love this!", answer=Mood
    )

    assert mood.mood in ("friendly", "angry")


async def test_an_error_in_mid_stream_is_told() -> None:
    model = ScriptedModel([[{"type": "error", "message": "cut"}]])

    with pytest.raises(ModelError, match="cut"):
        await judgement(model, instructions="x", text="y", answer=Mood)


async def test_whatever_else_goes_wrong_is_an_error_of_the_model() -> None:
    class Broken(ScriptedModel):
        def stream(self, request: Any) -> Any:
            raise KeyError("oops")

    with pytest.raises(ModelError, match="oops"):
        await judgement(Broken(), instructions="x", text="y", answer=Mood)
