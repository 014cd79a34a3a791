"""Names of models, ``provider/model``, and who makes them. Imports no driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from mastra_core.errors import ConfigError, DriverNotInstalledError, ModelNotFoundError
from mastra_core.plugins import ModelProviderSpec
from mastra_models.hosted import HOSTED, HostedOptions

if TYPE_CHECKING:
    from mastra_core.contracts.model import Model
    from mastra_core.plugins import AdapterContext
    from mastra_models.local.model import LocalModel

__all__ = (
    "HOSTED_PROVIDERS",
    "OWN_PROVIDERS",
    "HostedFactory",
    "local_model",
    "model_from_name",
    "provider_specs",
    "scripted_model",
    "split_model_name",
)

#: Providers of ours that need no network.
OWN_PROVIDERS: Final = ("local", "scripted")

#: Provider names that pydantic-ai resolves; ``gateway/<provider>/<model>`` goes through its gateway.
HOSTED_PROVIDERS: Final = tuple(HOSTED)


@dataclass(frozen=True, slots=True)
class HostedFactory:
    """Makes models of one hosted provider; pydantic-ai is imported when it is called."""

    provider: str

    def __call__(self, model_name: str, context: AdapterContext | None = None) -> Model:
        from mastra_models.pydantic_ai.providers import hosted_model

        return hosted_model(self.provider, model_name, clock=context.clock if context else None)


def local_model(model_name: str, context: AdapterContext | None = None) -> LocalModel:
    """A model that runs on this machine's CPU, from weights that were pulled before."""
    from mastra_models.local.model import LocalModel

    return LocalModel.from_name(model_name, ids=context.ids if context else None)


def scripted_model(model_name: str, _context: AdapterContext | None = None) -> Model:
    """A model without weights: it repeats what it hears and fills in tools by their schema."""
    from mastra_models.scripted import EchoModel

    if model_name != EchoModel.model_id:
        raise ModelNotFoundError(
            f"There is no scripted model {model_name!r}; there is 'scripted/{EchoModel.model_id}'.",
            details={"model": f"scripted/{model_name}"},
        )
    return EchoModel()


def provider_specs() -> Iterator[ModelProviderSpec]:
    """The descriptors of all providers, our own first."""
    yield ModelProviderSpec(
        name="local",
        factory="mastra_models.router:local_model",
        extra="models-local",
        summary="Small real models on the CPU, such as local/smollm2.",
    )
    yield ModelProviderSpec(
        name="scripted",
        factory="mastra_models.router:scripted_model",
        extra="models",
        summary="Answers without weights or network, for tests and dry runs.",
    )
    for provider in HOSTED_PROVIDERS:
        yield ModelProviderSpec(
            name=provider,
            factory=HostedFactory(provider),
            extra="models-hosted",
            summary=f"Models of {provider} through pydantic-ai.",
        )


def split_model_name(name: str) -> tuple[str, str]:
    """
    Provider and model of ``provider/model``; the model may hold further slashes.

    Raises:
        ModelNotFoundError: The name has no provider, or no model.
    """
    provider, _, model = name.partition("/")
    if not provider or not model:
        raise ModelNotFoundError(
            f"Model {name!r} is not of the form 'provider/model', such as 'local/smollm2'.",
            model=name,
            known=(*OWN_PROVIDERS, *HOSTED_PROVIDERS),
        )
    return provider, model


def model_from_name(
    name: str,
    context: AdapterContext | None = None,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    max_retries: int | None = None,
) -> Model:
    """
    The model of that name, from the providers of this package only.

    An application that also has providers of other plugins lets ``Mastra`` resolve names.

    Args:
        name: ``provider/model``.
        context: Clock and ids of the application.
        api_key: Key of a hosted provider; by default from its environment variable.
        base_url: Where to ask instead of the provider's own address, such as a proxy or a server
            that speaks the same protocol (``openai-chat/...`` for most of them).
        max_retries: How often a request that failed before its first word is sent again.

    Raises:
        ModelNotFoundError: The provider isn't known, or offers no such model.
        ModelKeyMissingError: The provider wants a key and there is none.
        DriverNotInstalledError: The provider's client library isn't installed.
        ConfigError: The provider can't be told a key or an address.
    """
    provider, model = split_model_name(name)
    if provider in HOSTED:
        try:
            from mastra_models.pydantic_ai.providers import hosted_model
        except ModuleNotFoundError as exc:
            if (exc.name or "").partition(".")[0] != "pydantic_ai":
                raise
            raise DriverNotInstalledError(
                distribution="mastra-models",
                version=version("mastra-models"),
                driver="pydantic_ai",
                extra="models-hosted",
            ) from exc
        options = HostedOptions(api_key=api_key, base_url=base_url)
        if max_retries is not None:
            options = replace(options, max_retries=max_retries)
        return hosted_model(provider, model, options, clock=context.clock if context else None)
    if provider not in OWN_PROVIDERS:
        raise ModelNotFoundError(model=name, known=(*OWN_PROVIDERS, *HOSTED_PROVIDERS))
    if (api_key, base_url, max_retries) != (None, None, None):
        raise ConfigError(f"Model {name!r} is not hosted: it has no key, address or retries.")
    return local_model(model, context) if provider == "local" else scripted_model(model, context)
