"""What the tests of the models share."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mastra_core.contracts.model import Model, ModelPart, ModelRequest, ToolSchema
from mastra_models.errors import WeightsUnavailableError
from mastra_models.weights import WEIGHTS, find_weights

DEPLOY = ToolSchema(
    name="deploy",
    description="Bring a branch to an environment.",
    input_schema={
        "type": "object",
        "properties": {
            "env": {"type": "string", "enum": ["staging", "prod"]},
            "reason": {"type": "string", "description": "why, in a few words"},
        },
        "required": ["env", "reason"],
    },
)
NOTIFY = ToolSchema(
    name="notify",
    description="Tell somebody.",
    input_schema={
        "type": "object",
        "properties": {"who": {"type": "string", "maxLength": 20}},
        "required": ["who"],
    },
)


def pytest_configure(config: pytest.Config) -> None:
    """
    Let the garbage collector close a socket of a provider's client.

    When a client has hung up, its transport is gone one round of the event loop later, and a
    busy machine may end the loop of a test before that. What we open we close ourselves.
    """
    for what in ("unclosed <socket", "unclosed transport"):
        config.addinivalue_line("filterwarnings", f"ignore:{what}:ResourceWarning")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def deploy() -> ToolSchema:
    return DEPLOY


@pytest.fixture
def notify() -> ToolSchema:
    return NOTIFY


@pytest.fixture
def ask() -> Callable[..., Any]:
    """Ask a model and collect every part of its answer."""

    async def collect(model: Model, text: str = "Say hello.", **fields: Any) -> list[ModelPart]:
        prompt = fields.pop("prompt", [{"role": "user", "content": [_text(text)]}])
        request = ModelRequest(prompt=prompt, **fields)
        return [part async for part in model.stream(request)]

    return collect


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The real weights. Without them these tests are not run, and say so; CI makes that red."""
    try:
        return find_weights(WEIGHTS["smollm2"])
    except WeightsUnavailableError as exc:
        if os.environ.get("MASTRA_REQUIRE_MODELS") == "1":
            pytest.fail(str(exc))
        pytest.skip(f"not run: {exc}")


@pytest.fixture(scope="module")
async def local(smollm2: Path) -> AsyncIterator[Any]:
    """One local model for a module; its child ends with it."""
    from mastra_models import LocalModel

    model = LocalModel(smollm2, model_id="smollm2")
    yield model
    await model.aclose()
