"""Ask the model again when its provider stumbled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from pydantic import Field

from mastra_core.base.tasks import call_maybe_async
from mastra_core.processors import ProcessorArgs
from mastra_processors.built_in import BuiltIn
from mastra_processors.errors_of_models import is_refused, is_retryable, retry_after_ms
from mastra_processors.options import Options

__all__ = ("Delay", "RetryMatcher", "StreamErrorRetry", "StreamErrorRetryOptions")

logger = logging.getLogger(__name__)

Delay = int | Callable[[ProcessorArgs], "int | Awaitable[int]"]


class RetryMatcher(Options):
    """Errors of a kind, with a policy of their own."""

    #: ``(error) -> bool``; asked about the error that the run would end with.
    match: Callable[[BaseException], bool]
    #: As that of the processor unless given.
    max_retries: int | None = Field(default=None, ge=0)
    #: As that of the processor unless given.
    delay_ms: Delay | None = None


class StreamErrorRetryOptions(Options):
    """Options of ``stream-error-retry-processor``."""

    #: How often one step is asked for again; the agent's ``max_processor_retries`` also counts.
    max_retries: int = Field(default=1, ge=0)
    #: Further errors to repeat after: functions, or ``{match, max_retries?, delay_ms?}``.
    matchers: tuple[RetryMatcher | Callable[[BaseException], bool], ...] = ()
    #: Repeat after every error that isn't known to be in vain (401, 403, a wrong key).
    retry_unknown_errors: bool = False
    #: Milliseconds to wait before, or a function of the hook's arguments.
    delay_ms: Delay = 0
    #: Longest wait that a provider's ``Retry-After`` may cause.
    max_retry_after_ms: int = Field(default=30_000, ge=0)


class StreamErrorRetry(BuiltIn[StreamErrorRetryOptions]):
    """
    An error processor: has a failed request repeated where that may help.

    Repeated is what says of itself that it may be (``retryable``), what the provider calls
    transient, and what a matcher knows.
    """

    id = "stream-error-retry-processor"
    options_type: ClassVar[type[Options]] = StreamErrorRetryOptions

    async def process_api_error(self, args: ProcessorArgs) -> dict[str, Any] | None:
        """Hook 10: wait, then ask for a repeat; None leaves the error to others."""
        assert args.error is not None
        policy = self._policy(args.error)
        if policy is None or args.retry_count >= policy[0]:
            return None
        delay = policy[1]
        given = await call_maybe_async(delay, args) if callable(delay) else delay
        asked = min(retry_after_ms(args.error, self.clock) or 0, self.options.max_retry_after_ms)
        wait = max(given, asked)
        logger.info(
            "request is repeated",
            extra={"run_id": args.run_id, "attempt": args.retry_count + 1, "wait_ms": wait},
        )
        if wait > 0:
            await self._wait(wait / 1000, args.abort_signal)
        # Also when the run is to stop: the repeat then ends it as aborted, not as failed.
        return {"retry": True}

    def _policy(self, error: BaseException) -> tuple[int, Delay] | None:
        options = self.options
        for matcher in options.matchers:
            if isinstance(matcher, RetryMatcher):
                if matcher.match(error):
                    retries, delay = matcher.max_retries, matcher.delay_ms
                    return (
                        options.max_retries if retries is None else retries,
                        options.delay_ms if delay is None else delay,
                    )
            elif matcher(error):
                return options.max_retries, options.delay_ms
        if is_retryable(error) or (options.retry_unknown_errors and not is_refused(error)):
            return options.max_retries, options.delay_ms
        return None

    async def _wait(self, seconds: float, abort: asyncio.Event | None) -> None:
        """Wait, but no longer than the run goes on."""
        waiters = [asyncio.ensure_future(self.clock.sleep(seconds))]
        if abort is not None:
            waiters.append(asyncio.ensure_future(_until(abort)))
        try:
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiters:
                waiter.cancel()
            await asyncio.gather(*waiters, return_exceptions=True)


async def _until(event: asyncio.Event) -> None:
    await event.wait()
