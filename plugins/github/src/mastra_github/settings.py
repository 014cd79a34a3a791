"""Options of the GitHub provider."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, SecretStr

__all__ = ("GitHubSettings",)


class GitHubSettings(BaseModel):
    """
    What a configuration may say about ``github``.

    ``secrets`` are those of the webhooks; while one is replaced, both the old and the new one
    are in the list.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    secrets: tuple[SecretStr, ...] = Field(min_length=1)
    #: Bodies above this are refused unread; GitHub sends at most 25 MB.
    max_body_bytes: int = Field(default=25 * 1024 * 1024, ge=1)
