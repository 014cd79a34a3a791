"""Base of adapters' settings: a URL whose ``mastra_*`` query parameters are options, too."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from mastra_core.plugins.urls import split_options

__all__ = ("UrlSettings",)


class UrlSettings(BaseModel):
    """
    Settings that also come from the URL when somebody makes them by hand.

    Example::

        class AcmeSettings(UrlSettings):
            pool_size: int = 4

        AcmeSettings(url="acme://localhost/app?mastra_pool_size=8")
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    url: str

    @model_validator(mode="before")
    @classmethod
    def _read_url_options(cls, data: Any) -> Any:
        """Move ``mastra_*`` parameters out of the URL; what was given apart wins."""
        if not isinstance(data, dict) or not isinstance(data.get("url"), str):
            return data
        url, options = split_options(data["url"])
        return {**options, **data, "url": url}
