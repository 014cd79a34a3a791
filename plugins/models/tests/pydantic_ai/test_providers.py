"""Names lead to a provider's model, or to an error that says what is missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import metadata
from typing import Any

import pytest

from mastra_core.errors import ConfigError, DriverNotInstalledError, ModelNotFoundError
from mastra_models import LocalModel, PydanticAIModel, model_from_name
from mastra_models.errors import ModelKeyMissingError
from mastra_models.hosted import HOSTED, OWN_EXTRAS

pytestmark = pytest.mark.anyio

#: Want an account, an address or a real key; ``github`` warns that it will go.
LATER = (
    *("azure", "azure-responses", "gateway", "github", "github-copilot"),
    *("heroku", "snowflake"),
)
KEYED = [
    name
    for name, facts in HOSTED.items()
    if facts.keys and facts.extra in OWN_EXTRAS and name not in LATER
]


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs this may have keys; these tests have none."""
    for facts in HOSTED.values():
        for variable in facts.keys:
            monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize("provider", KEYED)
def test_a_missing_key_names_its_variable_and_the_extra(provider: str) -> None:
    facts = HOSTED[provider]

    with pytest.raises(ModelKeyMissingError) as caught:
        model_from_name(f"{provider}/openai/some-model")

    said = str(caught.value)
    assert f"{provider}/openai/some-model" in said
    assert all(variable in said for variable in facts.keys)
    assert f"pip install 'mastra-models[{facts.extra}]'" in said


@pytest.mark.parametrize("provider", KEYED)
def test_a_key_from_the_environment_is_enough(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in HOSTED[provider].keys[:1]:
        monkeypatch.setenv(variable, "k-123")

    model = model_from_name(f"{provider}/openai/some-model")

    assert f"{provider}/openai/some-model" == f"{model.provider}/{model.model_id}"


@pytest.mark.parametrize("provider", KEYED)
def test_a_key_can_be_passed(provider: str) -> None:
    assert isinstance(
        model_from_name(f"{provider}/openai/some-model", api_key="k"), PydanticAIModel
    )


def test_a_missing_client_library_names_the_extra_and_the_key() -> None:
    """In a process that has no such library, whatever is installed here."""
    code = """
import sys
sys.modules["anthropic"] = None
from mastra_models import model_from_name
try:
    model_from_name("anthropic/claude-haiku-5-5")
except Exception as error:
    print(type(error).__name__, error)
"""

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.startswith(DriverNotInstalledError.__name__)
    assert "pip install 'mastra-models[anthropic]'" in done.stdout
    assert "ANTHROPIC_API_KEY" in done.stdout


def test_a_client_library_that_we_do_not_test_is_pydantic_ais_extra() -> None:
    with pytest.raises(DriverNotInstalledError, match=r"pip install 'pydantic-ai-slim\[cohere\]'"):
        model_from_name("cohere/command-r", api_key="k")


def test_every_extra_that_is_named_exists() -> None:
    offered = metadata("mastra-models").get_all("Provides-Extra") or []

    assert set(OWN_EXTRAS) <= set(offered)


@pytest.mark.parametrize("name", ["deepseek/deepseek-chat", "openrouter/meta/llama-4", "vllm/x"])
async def test_an_address_can_be_given_to_whoever_speaks_the_protocol(
    provider: Any, ask: Callable[..., Any], name: str
) -> None:
    """Also to providers whose address pydantic-ai takes for granted."""
    provider.streams("openai-chat", "text")
    model = model_from_name(name, base_url=provider.address("openai-chat"))
    assert isinstance(model, PydanticAIModel)
    provider.models.append(model)

    parts = await ask(model)

    assert "finish" == parts[-1]["type"]
    assert name.partition("/")[2] == provider.requests[0].body["model"]


async def test_an_address_from_the_environment_is_used(
    provider: Any, ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-env")
    monkeypatch.setenv("OPENAI_BASE_URL", provider.address("openai-chat"))
    provider.streams("openai-responses", "text")
    model = model_from_name("openai/gpt-5-mini")
    provider.models.append(model)

    await ask(model)

    assert "Bearer k-env" == provider.requests[0].headers["authorization"]


def test_a_provider_without_such_an_option_says_so() -> None:
    with pytest.raises(ConfigError, match="can't be given api_key"):
        model_from_name("openai-codex/gpt-5", api_key="k")


def test_a_gateway_has_its_address_in_the_environment() -> None:
    with pytest.raises(ConfigError, match="gateway"):
        model_from_name("gateway/openai/gpt-5", base_url="http://127.0.0.1:1")


@pytest.mark.parametrize("name", ["local/smollm2", "scripted/echo"])
def test_a_model_without_a_host_has_no_address(name: str) -> None:
    with pytest.raises(ConfigError, match="not hosted"):
        model_from_name(name, base_url="http://127.0.0.1:1")


def test_a_provider_that_nobody_has_lists_the_others() -> None:
    with pytest.raises(ModelNotFoundError, match="acme/large") as caught:
        model_from_name("acme/large", api_key="k")

    assert "anthropic" in str(caught.value)


async def test_the_local_models_server_is_one_of_them(
    ask: Callable[..., Any], text_of: Callable[..., str], local: LocalModel
) -> None:
    """The engine on this machine speaks OpenAI's protocol; ask it as if it were hosted."""
    server = await local.start()
    model = model_from_name(
        "openai-chat/smollm2", base_url=f"{server['address']}/v1", api_key=server["key"]
    )
    assert isinstance(model, PydanticAIModel)

    settings = {"maxOutputTokens": 12, "temperature": 0.0}
    parts = await ask(model, "Say hello.", settings=settings)
    await model.aclose()

    assert text_of(parts)
    assert parts[-1]["finishReason"] in ("stop", "length")
    assert parts[-1]["usage"]["outputTokens"] > 0


async def test_the_local_models_server_fills_in_a_form(
    ask: Callable[..., Any], text_of: Callable[..., str], local: LocalModel
) -> None:
    """A structured answer keeps to its schema through the hosted path, too."""
    server = await local.start()
    model = model_from_name(
        "openai-chat/smollm2", base_url=f"{server['address']}/v1", api_key=server["key"]
    )
    assert isinstance(model, PydanticAIModel)
    schema = {
        "type": "object",
        "properties": {"mood": {"type": "string", "enum": ["calm", "stormy"]}},
        "required": ["mood"],
        "additionalProperties": False,
    }

    parts = await ask(
        model,
        "How is the sea?",
        settings={"maxOutputTokens": 40, "temperature": 0.0},
        response_format={"type": "json", "schema": schema, "name": "sea"},
    )
    await model.aclose()

    assert "mood" in text_of(parts)
