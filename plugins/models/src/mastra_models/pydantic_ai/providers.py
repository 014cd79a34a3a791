"""Make the model of a hosted provider: its client, its key, its address."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.models import infer_model
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

from mastra_core.errors import ConfigError, DriverNotInstalledError
from mastra_models.errors import ModelKeyMissingError
from mastra_models.hosted import HOSTED, HostedOptions, HostedProvider
from mastra_models.pydantic_ai.failures import model_errors
from mastra_models.pydantic_ai.model import PydanticAIModel

if TYPE_CHECKING:
    from mastra_core.base.clock import Clock

__all__ = ("hosted_model",)

#: What providers call the address that they ask.
_ADDRESSES: Final = ("base_url", "azure_endpoint", "api_base")
#: Given to servers that want no key; their client libraries insist on one.
_NO_KEY: Final = "not-needed"


def hosted_model(
    provider: str,
    model_name: str,
    options: HostedOptions | None = None,
    *,
    clock: Clock | None = None,
) -> PydanticAIModel:
    """
    The model of a hosted provider; what ``options`` don't say comes from the provider's usual
    environment variables.

    Raises:
        DriverNotInstalledError: The provider's client library isn't installed.
        ModelKeyMissingError: A key is missing.
        ConfigError: The provider takes no such option, or can't be set up.
        ModelNotFoundError: The provider isn't known to pydantic-ai.
    """
    facts, options = HOSTED[provider], options or HostedOptions()
    route = provider
    if provider == "gateway":
        upstream, _, model_name = model_name.partition("/")
        route = f"gateway/{upstream}"
    name = f"{route}/{model_name}"
    opened: list[Provider[Any]] = []

    def make(kind: str) -> Provider[Any]:
        if (options.api_key, options.base_url) == (None, None):
            return infer_provider(kind)
        return _provider(kind, name, options, facts, opened)

    with model_errors(name):
        try:
            model = infer_model(f"{route}:{model_name}", make)
        except ImportError as exc:
            raise _client_missing(name, facts) from exc
        except RuntimeError as exc:
            # pydantic-ai's UserError; a key that is there had no part in it.
            if options.api_key is None and facts.keys and not any(map(os.getenv, facts.keys)):
                raise ModelKeyMissingError(
                    model=name, variables=facts.keys, requirement=facts.requirement
                ) from exc
            raise
    return PydanticAIModel(
        model,
        provider=route,
        max_retries=options.max_retries,
        key_names=facts.keys,
        clock=clock,
        opened=opened,
    )


def _provider(
    kind: str,
    name: str,
    options: HostedOptions,
    facts: HostedProvider,
    opened: list[Provider[Any]],
) -> Provider[Any]:
    """The provider as the options want it; what it was lent is added to ``opened``."""
    if kind.startswith("gateway/"):
        raise ConfigError(
            f"Model {name!r} goes through a gateway, whose key and address are "
            "environment variables."
        )
    made_by: Any = infer_provider_class(kind)
    takes = inspect.signature(made_by.__init__).parameters
    given: dict[str, Any] = {}
    if options.api_key is not None:
        given["api_key"] = options.api_key
    if options.base_url is not None:
        address = next((known for known in _ADDRESSES if known in takes), None)
        if address is None and "openai_client" in takes:
            lender = _at_address(options, facts)
            opened.append(lender)
            given = {"openai_client": lender.client}
        else:
            given[address or _ADDRESSES[0]] = options.base_url
    if unknown := sorted(given.keys() - takes.keys()):
        raise ConfigError(f"Model {name!r} can't be given {' or '.join(unknown)}.")
    made: Provider[Any] = made_by(**given)
    return made


def _at_address(options: HostedOptions, facts: HostedProvider) -> Provider[Any]:
    """Lends its client to a provider that speaks OpenAI's protocol at one address only."""
    from pydantic_ai.providers.openai import OpenAIProvider

    found = (os.getenv(variable) for variable in facts.keys)
    key = options.api_key or next(filter(None, found), _NO_KEY)
    return OpenAIProvider(base_url=options.base_url, api_key=key)


def _client_missing(name: str, facts: HostedProvider) -> DriverNotInstalledError:
    key = f" and the key {' or '.join(facts.keys)}" if facts.keys else ""
    return DriverNotInstalledError(
        f"Model {name!r} needs the client library of its provider{key}. "
        f"Install it with: pip install '{facts.requirement}'",
        distribution="mastra-models",
        driver=facts.name,
        extra=facts.extra,
    )
