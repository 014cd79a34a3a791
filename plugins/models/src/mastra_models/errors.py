"""What can go wrong before a model is asked: no weights, no key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from mastra_core.errors import ConfigError, ModelError
from mastra_core.errors.base import ErrorFields, with_facts

__all__ = ("ModelKeyMissingError", "WeightsUnavailableError")


class ModelKeyMissingError(ConfigError):
    """A hosted model was named, but there is no key for its provider."""

    id = "MODEL_KEY_MISSING"

    def __init__(
        self,
        message: str | None = None,
        *,
        model: str = "",
        variables: Sequence[str] = (),
        requirement: str = "",
        **fields: Unpack[ErrorFields],
    ) -> None:
        names = " or ".join(variables)
        super().__init__(
            message
            or f"Model {model!r} needs a key: set the environment variable {names}, or pass "
            f"it as api_key. The client library comes with: pip install '{requirement}'",
            **with_facts(fields, model=model, variables=list(variables), requirement=requirement),
        )


class WeightsUnavailableError(ModelError):
    """The weights of a local model aren't on this machine, or can't be had."""

    id = "MODEL_WEIGHTS_UNAVAILABLE"
    http_status = 503
