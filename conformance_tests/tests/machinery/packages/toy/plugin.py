"""What the toy adapters offer; imports none of them."""

from __future__ import annotations

from mastra_core.plugins import StorageSpec, hookimpl

__all__ = ("MASTRA_PLUGIN_API", "mastra_storage_adapters")

MASTRA_PLUGIN_API = (1, 0)

VARIANTS = (
    ("right", "ToyStorage", frozenset({"thread_state"})),
    ("generous", "GenerousStorage", frozenset({"thread_state"})),
    ("clumsy", "ClumsyStorage", frozenset({"thread_state"})),
    ("boastful", "BoastfulStorage", frozenset({"thread_state"})),
    ("renaming", "RenamingStorage", frozenset({"thread_state"})),
    ("leaky", "LeakyStorage", frozenset({"thread_state"})),
    ("threaded", "ThreadedStorage", frozenset({"thread_state"})),
    ("hoarding", "HoardingStorage", frozenset({"thread_state"})),
    ("forgetful", "ForgetfulStorage", frozenset({"thread_state"})),
    ("narrowing", "ToyStorage", frozenset({"thread_state", "thread_state.compare_and_set"})),
    ("refusing", "RefusingStorage", frozenset({"thread_state", "thread_state.compare_and_set"})),
)


@hookimpl
def mastra_storage_adapters() -> list[StorageSpec]:
    """One adapter per variant, under a scheme of its own."""
    return [
        StorageSpec(
            name="toy",
            schemes=(f"toy-{variant}",),
            factory=f"toy.storage:{factory}",
            capabilities=capabilities,
            summary="Thread state in a dictionary.",
        )
        for variant, factory, capabilities in VARIANTS
    ]
