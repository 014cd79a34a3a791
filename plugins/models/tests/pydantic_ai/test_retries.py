"""What fails before its first word is asked again, if that is safe and soon enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mastra_core.errors import ModelError, ModelHTTPError, ModelNotFoundError
from mastra_models.pydantic_ai.model import MAX_RETRY_AFTER_MS

pytestmark = pytest.mark.anyio

PROTOCOLS = ("openai-chat", "openai-responses", "anthropic", "google")
#: How each provider words a refusal.
BODIES: dict[str, Callable[[int, str], Any]] = {
    "openai-chat": lambda _status, text: {"error": {"message": text, "type": "t", "code": None}},
    "openai-responses": lambda _status, text: {"error": {"message": text, "type": "t"}},
    "anthropic": lambda _status, text: {
        "type": "error",
        "error": {"type": "api_error", "message": text},
    },
    "google": lambda status, text: {"error": {"code": status, "message": text, "status": "X"}},
}

of_every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


@of_every_protocol
async def test_a_busy_provider_is_asked_again_when_it_says(
    provider: Any, ask: Callable[..., Any], protocol: str
) -> None:
    provider.refuses(429, BODIES[protocol](429, "slow down"), "Retry-After: 7")
    provider.streams(protocol, "text")

    parts = await ask(provider.model(protocol))

    assert [7.0] == provider.clock.pauses
    assert "stream-start" == parts[0]["type"]
    assert 1 == sum(part["type"] == "stream-start" for part in parts)
    assert 2 == len(provider.requests)


@of_every_protocol
async def test_a_broken_provider_is_asked_three_times(
    provider: Any, ask: Callable[..., Any], protocol: str
) -> None:
    for _ in range(3):
        provider.refuses(500, BODIES[protocol](500, "it is on fire"))

    with pytest.raises(ModelHTTPError, match="it is on fire") as caught:
        await ask(provider.model(protocol))

    assert 500 == caught.value.status
    assert 3 == len(provider.requests)
    assert sorted(provider.clock.pauses) == provider.clock.pauses
    assert 0 < provider.clock.pauses[0] <= 0.5


@pytest.mark.parametrize("status", [400, 401, 403])
@of_every_protocol
async def test_what_would_fail_again_is_not_repeated(
    provider: Any, ask: Callable[..., Any], protocol: str, status: int
) -> None:
    provider.refuses(status, BODIES[protocol](status, "no"))

    with pytest.raises(ModelHTTPError) as caught:
        await ask(provider.model(protocol))

    assert not caught.value.retryable
    assert 1 == len(provider.requests)


async def test_an_unknown_model_is_not_found(provider: Any, ask: Callable[..., Any]) -> None:
    provider.refuses(404, BODIES["anthropic"](404, "model: claude-haiku-5-5"))

    with pytest.raises(ModelNotFoundError, match="anthropic/claude-haiku-5-5"):
        await ask(provider.model("anthropic"))


async def test_a_refused_key_says_which_variable_to_look_at(
    provider: Any, ask: Callable[..., Any]
) -> None:
    provider.refuses(401, BODIES["google"](401, "API key not valid."))

    with pytest.raises(ModelHTTPError) as caught:
        await ask(provider.model("google"))

    assert "Check the key in GOOGLE_API_KEY or GEMINI_API_KEY." == caught.value.hint


async def test_an_empty_account_is_not_asked_again(provider: Any, ask: Callable[..., Any]) -> None:
    error = {"message": "You exceeded your current quota.", "code": "insufficient_quota"}
    provider.refuses(429, {"error": {**error, "type": "insufficient_quota"}})

    with pytest.raises(ModelHTTPError, match="quota") as caught:
        await ask(provider.model("openai-responses"))

    assert not caught.value.retryable
    assert 1 == len(provider.requests)


async def test_a_provider_has_the_last_word_about_trying_again(
    provider: Any, ask: Callable[..., Any]
) -> None:
    body = BODIES["openai-chat"](500, "broken for good")
    provider.refuses(500, body, "x-should-retry: false")

    with pytest.raises(ModelHTTPError):
        await ask(provider.model("openai-chat"))

    assert 1 == len(provider.requests)


async def test_a_provider_that_wants_a_long_pause_is_left_alone(
    provider: Any, ask: Callable[..., Any]
) -> None:
    """Whoever has another model needn't wait; the error says for how long."""
    seconds = MAX_RETRY_AFTER_MS // 1000 + 1
    provider.refuses(429, BODIES["anthropic"](429, "later"), f"Retry-After: {seconds}")

    with pytest.raises(ModelHTTPError) as caught:
        await ask(provider.model("anthropic"))

    assert seconds == caught.value.retry_after
    assert [] == provider.clock.pauses


async def test_the_setting_of_a_request_says_how_often(
    provider: Any, ask: Callable[..., Any]
) -> None:
    for _ in range(2):
        provider.refuses(503, BODIES["anthropic"](503, "down"))

    for limit, expected in ((0, 1), (0, 2)):
        with pytest.raises(ModelHTTPError):
            await ask(provider.model("anthropic"), settings={"maxRetries": limit})
        assert expected == len(provider.requests)


async def test_an_error_that_opens_the_stream_is_one_before_the_first_word(
    provider: Any, ask: Callable[..., Any]
) -> None:
    """Anthropic says 200 and then that it is overloaded."""
    provider.streams("anthropic", "overloaded")
    provider.streams("anthropic", "text")

    parts = await ask(provider.model("anthropic"))

    assert "finish" == parts[-1]["type"]
    assert 2 == len(provider.requests)


async def test_nobody_there_is_tried_again(
    provider: Any, ask: Callable[..., Any], unused_tcp_port: int
) -> None:
    provider.port = unused_tcp_port

    with pytest.raises(ModelError, match="can't be reached"):
        await ask(provider.model("google"))

    assert 2 == len(provider.clock.pauses)
