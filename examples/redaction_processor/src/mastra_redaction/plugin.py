"""What mastra-redaction offers."""

from __future__ import annotations

from collections.abc import Iterable

from mastra_core.plugins import ProcessorSpec, hookimpl

__all__ = ("MASTRA_PLUGIN_API", "mastra_processors")

MASTRA_PLUGIN_API = (1, 0)


@hookimpl
def mastra_processors() -> Iterable[ProcessorSpec]:
    """The processor, by the name that agents use."""
    yield ProcessorSpec(
        name="redaction",
        factory="mastra_redaction.processor:make_redaction",
        settings="mastra_redaction.settings:RedactionSettings",
        phases=frozenset({"process_input", "process_output_stream"}),
        summary="Masks secrets on their way in, stops answers that contain some.",
    )
