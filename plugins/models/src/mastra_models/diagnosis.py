"""What ``doctor`` says about local models."""

from __future__ import annotations

from importlib.util import find_spec

from mastra_core.plugins import CheckResult
from mastra_models.errors import WeightsUnavailableError
from mastra_models.weights import WEIGHTS, find_weights

__all__ = ("check_local_model",)


def check_local_model(_application: object) -> CheckResult:
    """Engine and weights; without them everything but ``local/...`` works."""
    if find_spec("xllamacpp") is None:
        return CheckResult(
            status="ok",
            summary="no engine for local models",
            fix="pip install 'mastra-core[models-local]'",
        )
    weights = WEIGHTS["smollm2"]
    try:
        path = find_weights(weights)
    except WeightsUnavailableError:
        return CheckResult(
            status="ok",
            summary=f"no weights for local/{weights.name}",
            fix=f"mastra-py models pull {weights.name}",
        )
    return CheckResult(status="ok", summary=f"local/{weights.name} is ready: {path}")
