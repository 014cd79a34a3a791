"""Every processor can be named, and its options come as configurations have them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, Mastra
from mastra_core.contracts.processor import HOOKS
from mastra_core.errors import ConfigError, UnknownSettingError
from mastra_core.testing.scripted_model import ScriptedModel, text
from mastra_processors import plugin

OFFERED = {spec.name: spec for spec in plugin.mastra_processors()}
#: Options without which there is nothing to make.
JUDGE = {"model": ScriptedModel()}
NEEDED: dict[str, dict[str, Any]] = {
    "classifier": {"classifier": lambda text: {}, "on_result": lambda answers, context: None},
    "language-detector": JUDGE,
    "model-selection": {"classifier": lambda text: {}, "select": lambda answers: None},
    "moderation": JUDGE,
    "pii-detector": JUDGE,
    "prompt-injection-detector": JUDGE,
    "system-prompt-scrubber": JUDGE,
    "token-limiter": {"limit": 100},
    "skill-search": {"paths": []},
    "skills-processor": {"paths": []},
    "token-cost-control": {"maxCost": 1, "prices": {}},
}


def loaded(name: str) -> Any:
    module, _, member = name.partition(":")
    return getattr(import_module(module), member)


@pytest.mark.parametrize("name", OFFERED)
def test_what_is_offered_is_there(name: str) -> None:
    """The factory, its options, its id and its hooks are as the descriptor says."""
    spec = OFFERED[name]
    factory = loaded(str(spec.factory))

    made = factory(loaded(str(spec.settings)).model_validate(NEEDED.get(name, {})))

    assert name == made.id
    assert {hook for hook in HOOKS if callable(getattr(made, hook, None))} == spec.phases
    assert spec.summary.endswith(".")


def test_every_processor_is_exported() -> None:
    import mastra_processors

    exported = {
        getattr(mastra_processors, name).id
        for name in mastra_processors.__all__
        if hasattr(getattr(mastra_processors, name), "id")
    }
    assert set(OFFERED) == exported
    with pytest.raises(AttributeError, match="Nothing"):
        _ = mastra_processors.Nothing


@pytest.mark.anyio
@pytest.mark.parametrize("name", OFFERED)
async def test_an_agent_can_name_it(name: str, application: Any) -> None:
    choice = (name, NEEDED[name]) if name in NEEDED else name
    agent = Agent(
        id="helper",
        model=ScriptedModel([[text("ok")]]),
        input_processors=[choice],
        output_processors=[choice],
        error_processors=[choice],
    )
    await application(agent)

    assert "ok" == (await agent.generate("hello", thread_id="t", resource_id="r"))["text"]


@case("processors", 50)
@pytest.mark.anyio
async def test_options_may_have_the_names_of_stored_configurations(
    application: Any, prompt_of: Any
) -> None:
    options = {"rules": [{"name": "n", "pattern": "a+", "replacement": "-"}]}
    named = {**options, "strategy": "redact", "includeRedactedValues": True}
    agent = Agent(
        id="helper",
        model=ScriptedModel([[text("ok")]]),
        input_processors=[
            ("regex-filter", named),
            ("unicode-normalizer", {"preserveEmojis": True}),
        ],
    )
    await application(agent)
    await agent.generate("baac")

    assert "user:b-c" == prompt_of(agent)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"limits": 5}, UnknownSettingError, "limit"),
        ({"limit": "many"}, ConfigError, "limit"),
        ({}, ConfigError, "limit"),
    ],
)
async def test_wrong_options_are_refused(
    application: Any, options: Any, error: Any, words: str
) -> None:
    agent = Agent(id="helper", model=ScriptedModel(), input_processors=[("token-limiter", options)])
    await application(agent)

    with pytest.raises(error, match=words):
        await agent.generate("x")


def test_options_are_given_by_name_or_as_one_object() -> None:
    from mastra_processors import TokenLimiter
    from mastra_processors.token_limiter import TokenLimiterOptions

    given = TokenLimiterOptions(limit=5)
    assert given is TokenLimiter(given).options
    for wrong in (lambda: TokenLimiter(5), lambda: TokenLimiter(given, limit=6)):  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="by name"):
            wrong()


@pytest.mark.anyio
async def test_one_filter_may_stand_in_both_lists(application: Any) -> None:
    choice = ("regex-filter", {"presets": ["pii"], "strategy": "redact"})
    agent = Agent(
        id="helper",
        model=ScriptedModel([[text("write to a@example.org")]]),
        input_processors=[choice],
        output_processors=[choice],
    )
    await application(agent)

    assert "write to [EMAIL]" == (await agent.generate("b@example.org"))["text"]


# -- what runs without being named -------------------------------------------------------------


@pytest.mark.anyio
async def test_the_guard_runs_for_models_that_need_it(application: Any, prompt_of: Any) -> None:
    dialogue = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    gemini = Agent(
        id="g", model=ScriptedModel([[text("c")]], provider="google", model_id="gemini-3-pro")
    )
    other = Agent(id="o", model=ScriptedModel([[text("c")]]))
    await application(gemini, other)

    await gemini.generate(dialogue)
    await other.generate(dialogue)

    assert "user:a assistant:b user:Continue." == prompt_of(gemini)
    assert "user:a assistant:b" == prompt_of(other)


@pytest.mark.anyio
async def test_a_browser_in_the_context_is_told(application: Any, prompt_of: Any) -> None:
    agent = Agent(id="b", model=ScriptedModel([[text("c")], [text("d")]]))
    mastra: Mastra = await application(agent)
    browser = {"provider": "agent-browser", "currentUrl": "https://example.org/", "other": 1}

    await agent.generate("a", thread_id="t", resource_id="r", request_context={"browser": browser})

    assert "Address: https://example.org/" in prompt_of(agent)
    assert mastra.is_open
    await agent.generate("a", thread_id="t2", resource_id="r")
    assert "Address" not in prompt_of(agent)
