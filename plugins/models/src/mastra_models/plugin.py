"""What mastra-models offers. Imports no driver."""

from __future__ import annotations

from collections.abc import Iterable

from mastra_core.plugins import DoctorCheck, ModelProviderSpec, hookimpl
from mastra_models.router import provider_specs

__all__ = ("MASTRA_PLUGIN_API", "mastra_doctor_checks", "mastra_model_providers")

MASTRA_PLUGIN_API = (1, 0)


@hookimpl
def mastra_model_providers() -> Iterable[ModelProviderSpec]:
    """One descriptor for each provider name that may stand before the slash."""
    yield from provider_specs()


@hookimpl
def mastra_doctor_checks() -> Iterable[DoctorCheck]:
    """Whether the local model could be asked."""
    yield DoctorCheck(name="local-model", factory="mastra_models.diagnosis:check_local_model")
