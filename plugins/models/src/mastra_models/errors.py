"""What can go wrong with local weights."""

from __future__ import annotations

from mastra_core.errors import ModelError

__all__ = ("WeightsUnavailableError",)


class WeightsUnavailableError(ModelError):
    """The weights of a local model aren't on this machine, or can't be had."""

    id = "MODEL_WEIGHTS_UNAVAILABLE"
    http_status = 503
