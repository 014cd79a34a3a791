"""Names of models lead to models, or to an error that says what there is."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

import pytest
from pydantic_ai.providers import infer_provider_class

from mastra_core.errors import ConfigError, ModelNotFoundError
from mastra_core.plugins import AdapterContext
from mastra_models import EchoModel, model_from_name
from mastra_models.plugin import mastra_model_providers
from mastra_models.router import HOSTED_PROVIDERS, OWN_PROVIDERS, split_model_name


def test_every_provider_has_a_descriptor_of_its_own() -> None:
    names = [spec.name for spec in mastra_model_providers()]

    assert [*OWN_PROVIDERS, *HOSTED_PROVIDERS] == names


@pytest.mark.parametrize("provider", [name for name in HOSTED_PROVIDERS if name != "gateway"])
def test_every_hosted_name_is_known_to_pydantic_ai(provider: str) -> None:
    """A name is known if it leads to a class, or only its client library is missing."""
    # A name that isn't known raises ValueError.
    with suppress(ImportError):
        infer_provider_class(provider)


def test_the_model_may_hold_further_slashes() -> None:
    assert ("openrouter", "meta/llama-3") == split_model_name("openrouter/meta/llama-3")


@pytest.mark.parametrize("name", ["smollm2", "/smollm2", "local/", ""])
def test_a_name_without_provider_or_model_is_refused(name: str) -> None:
    with pytest.raises(ModelNotFoundError, match=r"provider/model.*Known|provider/model"):
        model_from_name(name)


def test_an_unknown_provider_lists_the_known_ones() -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        model_from_name("acme/large")

    assert "acme/large" in str(caught.value)
    assert "local, scripted" in str(caught.value)
    assert "openai" in str(caught.value)


def test_an_unknown_local_model_lists_the_known_ones() -> None:
    with pytest.raises(ModelNotFoundError, match="Known: local/smollm2"):
        model_from_name("local/gpt")


def test_an_unknown_script_names_the_one_there_is() -> None:
    with pytest.raises(ModelNotFoundError, match="scripted/echo"):
        model_from_name("scripted/other")


def test_a_scripted_model_needs_nothing() -> None:
    assert isinstance(model_from_name("scripted/echo", AdapterContext()), EchoModel)


def test_a_missing_key_is_a_setting_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        model_from_name("openai/gpt-5-mini")


def test_a_hosted_name_makes_that_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")

    model = model_from_name("openai/gpt-5-mini")

    assert ("openai", "gpt-5-mini") == (model.provider, model.model_id)


def test_descriptors_import_no_engine_and_no_provider() -> None:
    code = (
        "import sys; from mastra_models.plugin import mastra_model_providers as p; list(p());"
        "print([m for m in ('xllamacpp', 'pydantic_ai') if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == done.stdout.strip()


def test_a_hosted_name_without_the_library_says_what_to_install() -> None:
    """Who only wanted the local model has no client of any provider."""
    code = (
        "import sys; sys.modules['pydantic_ai'] = None\n"
        "from mastra_core.errors import DriverNotInstalledError\n"
        "from mastra_models import model_from_name\n"
        "try: model_from_name('openai/gpt-5-mini')\n"
        "except DriverNotInstalledError as error: print(error.message)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "its driver 'pydantic_ai' is not" in done.stdout
    assert "pip install 'mastra-core[models-hosted]'" in done.stdout
