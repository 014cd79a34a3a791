"""Error processors: when a failed request is repeated, and when not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from mastra_core.base.isotime import parse_iso
from mastra_core.errors import ModelError, ModelHTTPError
from mastra_core.plugins import AdapterContext
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.testing.scripted_model import ScriptedModel, text
from mastra_processors import PrefillErrorHandler, StreamErrorRetry
from mastra_processors.errors_of_models import is_refused, is_retryable, retry_after_ms
from mastra_processors.prefill_error_handler import is_prefill_error

pytestmark = pytest.mark.anyio


class Failing(ScriptedModel):
    """Fails with these errors, one request after the other, then answers."""

    def __init__(self, *errors: BaseException) -> None:
        super().__init__([[text("at last")]] * 9)
        self.errors = list(errors)

    def stream(self, request: Any) -> Any:
        if self.errors:
            self.requests.append(request)
            raise self.errors.pop(0)
        return super().stream(request)


def overloaded() -> ModelHTTPError:
    return ModelHTTPError(status=503)


# -- stream-error-retry-processor --------------------------------------------------------------


async def test_a_transient_error_is_repeated(make_agent: Any) -> None:
    agent = make_agent(model=Failing(overloaded()), error_processors=[StreamErrorRetry()])

    assert "at last" == (await agent.generate("go"))["text"]


async def test_no_more_often_than_allowed(make_agent: Any) -> None:
    model = Failing(overloaded(), overloaded(), overloaded())
    agent = make_agent(model=model, error_processors=[StreamErrorRetry(max_retries=2)])

    with pytest.raises(ModelHTTPError):
        await agent.generate("go")
    assert 3 == len(model.requests)


@pytest.mark.parametrize("retries_unknown", [False, True])
async def test_unknown_errors_only_if_wanted(make_agent: Any, retries_unknown: bool) -> None:
    model = Failing(ModelError("something odd"))
    retry = StreamErrorRetry(retry_unknown_errors=retries_unknown)
    agent = make_agent(model=model, error_processors=[retry])

    if retries_unknown:
        assert "at last" == (await agent.generate("go"))["text"]
    else:
        with pytest.raises(ModelError, match="odd"):
            await agent.generate("go")


@pytest.mark.parametrize(
    "error", [ModelHTTPError(status=401), ModelError("no", id="INVALID_API_KEY")]
)
async def test_who_is_not_let_in_does_not_ask_again(make_agent: Any, error: Any) -> None:
    model = Failing(error)
    agent = make_agent(model=model, error_processors=[StreamErrorRetry(retry_unknown_errors=True)])

    with pytest.raises(ModelError):
        await agent.generate("go")
    assert 1 == len(model.requests)


async def test_a_matcher_may_have_its_own_policy(make_agent: Any) -> None:
    def is_reset(error: BaseException) -> bool:
        return "reset" in str(error)

    model = Failing(*[ModelError("connection reset")] * 3)
    retry = StreamErrorRetry(max_retries=0, matchers=[{"match": is_reset, "max_retries": 3}])
    agent = make_agent(model=model, error_processors=[retry])

    assert "at last" == (await agent.generate("go"))["text"]

    model = Failing(ModelError("connection reset"))
    agent = make_agent(model=model, error_processors=[StreamErrorRetry(matchers=[is_reset])])
    assert "at last" == (await agent.generate("go"))["text"]


@pytest.mark.parametrize(
    ("options", "retry_after", "seconds"),
    [
        ({"delay_ms": 2000}, None, 2),
        ({}, 5, 5),
        ({"delay_ms": 7000}, 5, 7),
        ({}, 3600, 30),
        ({"max_retry_after_ms": 1000}, 3600, 1),
        ({"delay_ms": lambda args: 1500 * 2**args.retry_count}, None, 1.5),
    ],
)
async def test_it_waits_as_told(
    make_agent: Any, options: Any, retry_after: Any, seconds: float
) -> None:
    clock = FakeClock()
    retry = StreamErrorRetry(None, AdapterContext(clock=clock), **options)
    model = Failing(ModelHTTPError(status=503, retry_after=retry_after))
    agent = make_agent(model=model, error_processors=[retry])

    output = await agent.stream("go")
    run = asyncio.create_task(output.get_full_output())
    await clock.advance(seconds - 0.01)
    assert 1 == len(model.requests)
    await clock.advance(0.02)

    assert "at last" == (await run)["text"]


async def test_an_abort_ends_the_wait(make_agent: Any) -> None:
    clock = FakeClock()
    retry = StreamErrorRetry(None, AdapterContext(clock=clock), delay_ms=60_000)
    model = Failing(overloaded())
    stop = asyncio.Event()
    agent = make_agent(model=model, error_processors=[retry])

    output = await agent.stream("go", abort_signal=stop)
    run = asyncio.create_task(output.get_full_output())
    await clock.advance(1)
    stop.set()
    async with asyncio.timeout(60):
        await run

    assert "canceled" == output.status
    assert 1 == len(model.requests)


def with_headers(headers: Mapping[str, str]) -> ModelError:
    error = ModelError("busy")
    cause = RuntimeError("429")
    cause.headers = headers  # type: ignore[attr-defined]
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("2.5", 2500),
        ("Fri, 02 Jan 2026 00:00:10 GMT", 10_000),
        ("Thu, 01 Jan 2026 00:00:00 GMT", None),
        ("soon", None),
        ("-1", None),
    ],
)
def test_retry_after_is_read_from_headers_of_the_cause(value: str, wait: int | None) -> None:
    clock = FakeClock(parse_iso("2026-01-02T00:00:00.000Z"))

    assert wait == retry_after_ms(with_headers({"Retry-After": value}), clock)
    assert retry_after_ms(ModelError("x"), clock) is None


def test_errors_say_what_they_are() -> None:
    said = ModelError("An error occurred. You can retry your request, or contact us.")
    assert is_retryable(said)
    cause = RuntimeError("x")
    cause.body = {"error": {"code": "server_error"}}  # type: ignore[attr-defined]
    outer = ModelError("failed")
    outer.__cause__ = cause
    assert is_retryable(outer)
    assert not is_retryable(ModelError("no such thing"))
    assert not is_refused(ModelError("no such thing"))
    loop = ModelError("a")
    loop.__cause__ = loop
    assert not is_refused(loop)


# -- prefill-error-handler ---------------------------------------------------------------------

REFUSAL = "This model does not support assistant message prefill. The conversation must end with a user message."


async def test_a_refused_turn_at_the_end_is_followed_by_a_signal(
    make_agent: Any, prompt_of: Any
) -> None:
    agent = make_agent(model=Failing(ModelError(REFUSAL)), error_processors=[PrefillErrorHandler()])

    answer = await agent.generate(
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        thread_id="t1",
        resource_id="u1",
    )

    assert "at last" == answer["text"]
    reminder = (
        '<system-reminder type="anthropic-prefill-processor-retry">continue</system-reminder>'
    )
    assert f"user:a assistant:b user:{reminder}" == prompt_of(agent)
    page = await agent.memory.store.list_messages("t1")
    assert "signal" in [message.role for message in page.messages]


async def test_the_second_refusal_ends_the_run(make_agent: Any) -> None:
    model = Failing(ModelError(REFUSAL), ModelError(REFUSAL))
    agent = make_agent(model=model, error_processors=[PrefillErrorHandler()])

    with pytest.raises(ModelError, match="prefill"):
        await agent.generate("go")
    assert 2 == len(model.requests)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (REFUSAL, True),
        ("Requests ending with a model turn are not supported.", True),
        ("messages: final assistant content cannot end with trailing whitespace", True),
        ("The prompt is too long.", False),
    ],
)
def test_refusals_are_known_by_their_words(words: str, expected: bool) -> None:
    assert expected == is_prefill_error(ModelError(words))
