"""A hosted model: one request, one streamed answer."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model as TheirModel
from pydantic_ai.models import StreamedResponse
from pydantic_ai.providers import Provider

from mastra_core.base.clock import SystemClock
from mastra_core.base.retry import RetryPolicy
from mastra_core.base.tasks import shielded
from mastra_core.contracts.model import ModelPart, ModelRequest
from mastra_core.errors import ModelError
from mastra_models.feed import feed
from mastra_models.hosted import MAX_RETRIES
from mastra_models.pydantic_ai.failures import model_errors, stream_cut
from mastra_models.pydantic_ai.parts import PartWriter, finish_part, metadata_part, was_cut
from mastra_models.pydantic_ai.prompts import messages_from_prompt
from mastra_models.pydantic_ai.requests import asked_from_request

if TYPE_CHECKING:
    from mastra_core.base.clock import Clock

__all__ = ("MAX_RETRY_AFTER_MS", "PydanticAIModel")

logger = logging.getLogger(__name__)

#: A provider that asks for a longer pause is not waited for: the caller may have another model.
MAX_RETRY_AFTER_MS: Final = 30_000
#: Seconds that closing a connection may take.
_HANG_UP_SECONDS: Final = 5.0
#: Pauses before a request is sent again, if the provider doesn't say how long.
_PAUSES: Final = RetryPolicy(first_delay_ms=500, factor=2, max_delay_ms=8_000, jitter=0.25)


class PydanticAIModel:
    """
    Any model of pydantic-ai, behind our protocol.

    A request that failed before its first word is sent again, if that is safe; the provider's
    client library itself sends it once. The setting ``maxRetries`` of a request comes first.

    Args:
        model: An instance of pydantic-ai's model classes, set up by you.
        provider: What to call the provider in rows and messages, if not by its own name.
        max_retries: How often a request is sent again.
        key_names: Environment variables of the key, named if the provider refuses it.
        clock: Waits between two attempts.
        opened: Providers whose connections the model uses beside its own.
    """

    def __init__(
        self,
        model: TheirModel,
        *,
        provider: str | None = None,
        max_retries: int = MAX_RETRIES,
        key_names: Sequence[str] = (),
        clock: Clock | None = None,
        opened: Sequence[Provider[Any]] = (),
    ) -> None:
        self._model = model
        self._opened = tuple(opened)
        self._max_retries = max_retries
        self._key_names = tuple(key_names)
        self._clock = clock or SystemClock()
        self._random = Random()  # noqa: S311 - spreads pauses, guards nothing
        self.provider = provider or model.system
        self.model_id = model.model_name

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """Ask, and ask again while nothing was said yet and the failure allows it."""
        return feed(self._parts(request), request.abort)

    async def aclose(self) -> None:
        """Close the connections of the provider's client, if pydantic-ai opened them."""
        async with AsyncExitStack() as stack:
            for provider in self._opened:
                await stack.enter_async_context(provider)
            await stack.enter_async_context(self._model)

    async def _parts(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        given = request.settings.get("maxRetries")
        retries = self._max_retries if given is None else int(given)
        failures, has_begun = 0, False
        while True:
            try:
                async with aclosing(self._attempt(request)) as parts:
                    async for part in parts:
                        has_begun = True
                        yield part
                    return
            except ModelError as exc:
                failures += 1
                pause_ms = self._pause_ms(exc, failures)
                if has_begun or not exc.retryable or failures > retries or pause_ms is None:
                    raise
                logger.warning(
                    "model request failed, trying again",
                    extra={
                        "model": f"{self.provider}/{self.model_id}",
                        "failures": failures,
                        "delay_ms": pause_ms,
                        "error_id": exc.id,
                    },
                )
            await self._clock.sleep(pause_ms / 1000)

    def _pause_ms(self, error: ModelError, failures: int) -> float | None:
        """How long to wait; None if the provider wants more time than anybody has."""
        asked = getattr(error, "retry_after", None)
        if asked is None:
            return _PAUSES.delay_ms(failures, self._random)
        pause_ms = float(asked) * 1000
        return pause_ms if pause_ms <= MAX_RETRY_AFTER_MS else None

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        name = f"{self.provider}/{self.model_id}"
        with model_errors(name, key_names=self._key_names):
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
            start: ModelPart = {"type": "stream-start", "warnings": asked.warnings}
            told: ModelPart | None = None
            async with opened as events, _hung_up(events):
                async for event in events:
                    if told is None:
                        # With the first word, so that an attempt without one leaves no trace.
                        yield start
                        yield (told := metadata_part(events.get()))
                    for part in writer.write(event):
                        yield part
                response = events.get()
            if was_cut(response):
                raise stream_cut(name)
            if told is None:
                yield start
            for part in writer.close(response):
                yield part
            if (known := metadata_part(response)) != told:
                yield known
            yield finish_part(response, system)


@asynccontextmanager
async def _hung_up(events: StreamedResponse) -> AsyncIterator[None]:
    """
    Close the connection of an answer that isn't read to its end.

    Not every client library does that by itself when its iterator is dropped.
    """
    try:
        yield
    except BaseException:
        try:
            await shielded(events.cancel(), deadline=_HANG_UP_SECONDS)
        except Exception:
            logger.debug("connection of an answer wasn't closed", exc_info=True)
        raise
