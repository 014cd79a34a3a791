"""Models for agents: a small real one on the CPU, and hosted providers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mastra_models.local.model import LocalModel
    from mastra_models.pydantic_ai.model import PydanticAIModel
    from mastra_models.router import model_from_name
    from mastra_models.scripted import EchoModel

__all__ = ("EchoModel", "LocalModel", "PydanticAIModel", "__version__", "model_from_name")

__version__ = "0.1.0"

_HOMES = {
    "EchoModel": "mastra_models.scripted",
    "LocalModel": "mastra_models.local.model",
    "PydanticAIModel": "mastra_models.pydantic_ai.model",
    "model_from_name": "mastra_models.router",
}


def __getattr__(name: str) -> Any:
    # Lazily, so that a plugin scan imports neither an engine nor a provider.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
