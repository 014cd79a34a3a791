"""A hosted model: one request, one streamed answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model as TheirModel
from pydantic_ai.models import infer_model

from mastra_core.contracts.model import ModelPart, ModelRequest
from mastra_core.errors import DriverNotInstalledError
from mastra_models.feed import feed
from mastra_models.pydantic_ai.failures import model_errors
from mastra_models.pydantic_ai.parts import PartWriter, finish_part, metadata_part
from mastra_models.pydantic_ai.prompts import messages_from_prompt
from mastra_models.pydantic_ai.requests import asked_from_request

__all__ = ("PydanticAIModel", "hosted_model")


class PydanticAIModel:
    """
    Any model of pydantic-ai, behind our protocol.

    Args:
        model: An instance of pydantic-ai's model classes, set up by you.
        provider: What to call the provider in rows and messages, if not by its own name.
    """

    def __init__(self, model: TheirModel, *, provider: str | None = None) -> None:
        self._model = model
        self.provider = provider or model.system
        self.model_id = model.model_name

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """Ask once; retrying is the caller's decision."""
        return feed(self._parts(request), request.abort)

    async def _parts(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        with model_errors(f"{self.provider}/{self.model_id}"):
            system = self._model.system
            asked = asked_from_request(request, self._model)
            writer = PartWriter(system)
            opened = model_request_stream(
                self._model,
                messages_from_prompt(request.prompt, system=system),
                model_settings=asked.settings,
                model_request_parameters=asked.parameters,
                instrument=False,
            )
            async with opened as events:
                yield {"type": "stream-start", "warnings": asked.warnings}
                async for event in events:
                    for part in writer.write(event):
                        yield part
                response = events.get()
            for part in writer.close(response):
                yield part
            yield metadata_part(response)
            yield finish_part(response)


def hosted_model(provider: str, model_name: str) -> PydanticAIModel:
    """
    The model of a hosted provider; keys and addresses come from the provider's usual
    environment variables.

    Raises:
        DriverNotInstalledError: The provider's client library isn't installed.
        ConfigError: A key is missing.
        ModelNotFoundError: The provider isn't known to pydantic-ai.
    """
    if provider == "gateway":
        upstream, _, model_name = model_name.partition("/")
        provider = f"gateway/{upstream}"
    name = f"{provider}/{model_name}"
    with model_errors(name):
        try:
            model = infer_model(f"{provider}:{model_name}")
        except ImportError as exc:
            raise DriverNotInstalledError(
                f"The client library for {name!r} is not installed: {exc}",
                distribution="mastra-models",
                driver=provider,
                extra="models-hosted",
            ) from exc
    return PydanticAIModel(model, provider=provider)
