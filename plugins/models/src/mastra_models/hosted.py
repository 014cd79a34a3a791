"""Hosted providers by name: what brings their client, and where their key stands.

Only facts; pydantic-ai and the clients are imported by ``pydantic_ai.providers``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ("HOSTED", "MAX_RETRIES", "OWN_EXTRAS", "HostedOptions", "HostedProvider")

#: Extras of mastra-models, whose providers are tested here; ``hosted`` is all of them.
OWN_EXTRAS: Final = ("openai", "anthropic", "google", "hosted")
#: How often a request that failed before its first word is sent again.
MAX_RETRIES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedProvider:
    """One name that may stand before the slash."""

    name: str
    #: The extra that brings the client library; it is one of ours for :data:`OWN_EXTRAS`, else
    #: one of pydantic-ai-slim.
    extra: str
    #: Environment variables that may hold the key, in the order in which they are looked at.
    keys: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        """What to install for it."""
        ours = self.extra in OWN_EXTRAS
        return f"{'mastra-models' if ours else 'pydantic-ai-slim'}[{self.extra}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedOptions:
    """What may be said of a hosted model beside its name."""

    #: None: the provider's environment variable.
    api_key: str | None = None
    #: Address of the provider, or of a server that speaks its protocol; None: the usual one.
    base_url: str | None = None
    max_retries: int = MAX_RETRIES


def _providers() -> Mapping[str, HostedProvider]:
    rows: tuple[tuple[str, str, tuple[str, ...]], ...] = (
        ("alibaba", "openai", ("ALIBABA_API_KEY", "DASHSCOPE_API_KEY")),
        ("anthropic", "anthropic", ("ANTHROPIC_API_KEY",)),
        ("azure", "openai", ("AZURE_OPENAI_API_KEY",)),
        ("azure-responses", "openai", ("AZURE_OPENAI_API_KEY",)),
        ("bedrock", "bedrock", ()),
        ("bedrock-mantle", "bedrock", ()),
        ("cerebras", "openai", ("CEREBRAS_API_KEY",)),
        ("cohere", "cohere", ("CO_API_KEY",)),
        ("crusoe", "openai", ("CRUSOE_API_KEY",)),
        ("deepseek", "openai", ("DEEPSEEK_API_KEY",)),
        ("fireworks", "openai", ("FIREWORKS_API_KEY",)),
        ("gateway", "hosted", ("PYDANTIC_AI_GATEWAY_API_KEY", "PAIG_API_KEY")),
        ("github", "openai", ("GITHUB_API_KEY",)),
        ("github-copilot", "openai", ("GITHUB_COPILOT_API_KEY", "GITHUB_COPILOT_API_TOKEN")),
        ("google", "google", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
        ("google-cloud", "google", ()),
        ("groq", "groq", ("GROQ_API_KEY",)),
        ("heroku", "openai", ("HEROKU_INFERENCE_KEY",)),
        ("huggingface", "huggingface", ("HF_TOKEN",)),
        ("litellm", "openai", ()),
        ("meta", "openai", ("META_API_KEY",)),
        ("mistral", "mistral", ("MISTRAL_API_KEY",)),
        ("moonshotai", "openai", ("MOONSHOTAI_API_KEY",)),
        ("nebius", "openai", ("NEBIUS_API_KEY",)),
        ("ollama", "openai", ()),
        ("openai", "openai", ("OPENAI_API_KEY",)),
        ("openai-chat", "openai", ("OPENAI_API_KEY",)),
        ("openai-chatgpt", "openai", ()),
        ("openai-codex", "openai", ()),
        ("openai-responses", "openai", ("OPENAI_API_KEY",)),
        ("openrouter", "openai", ("OPENROUTER_API_KEY",)),
        ("ovhcloud", "openai", ("OVHCLOUD_API_KEY",)),
        ("sambanova", "openai", ("SAMBANOVA_API_KEY",)),
        ("snowflake", "openai", ("SNOWFLAKE_TOKEN",)),
        ("together", "openai", ("TOGETHER_API_KEY",)),
        ("vercel", "openai", ("VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN")),
        ("vllm", "openai", ()),
        ("xai", "xai", ("XAI_API_KEY",)),
        ("zai", "openai", ("ZAI_API_KEY",)),
    )
    return {name: HostedProvider(name=name, extra=extra, keys=keys) for name, extra, keys in rows}


#: Names that pydantic-ai resolves; ``gateway/<provider>/<model>`` goes through its gateway.
HOSTED: Final[Mapping[str, HostedProvider]] = _providers()
