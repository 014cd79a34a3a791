"""Every hook is defined completely: policy, types, an example that compiles."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, get_args

import pytest

from mastra_core.plugins import hookspecs
from mastra_core.plugins.loading import PluginHost
from mastra_core.plugins.markers import HookPolicy, hookspec, policy_of
from mastra_core.plugins.specs import DESCRIPTORS

HOOKS: dict[str, Callable[..., Any]] = {
    name: getattr(hookspecs, name) for name in hookspecs.__all__ if name.startswith("mastra_")
}

#: The table of design 4.3, and mastra_create_processor of processors.md 10.3.
POLICIES = {
    "mastra_finalize_processors": "decide",
    "mastra_create_processor": "decide",
    "mastra_peer_directory": "decide",
    "mastra_processor_error": "observe",
    "mastra_processor_violation": "observe",
    "mastra_processor_call": "observe",
    "mastra_peer_event": "observe",
    "mastra_startup": "gather",
    "mastra_shutdown": "gather",
    "mastra_authorize_peer": "permit",
}


@pytest.mark.parametrize("name", HOOKS)
def test_hook_is_known_with_its_policy(name: str) -> None:
    """The host calls it in the way that the design says."""
    assert POLICIES.get(name, "collect") == PluginHost().policy(name)


@pytest.mark.parametrize("name", HOOKS)
def test_hook_has_types_and_an_example(name: str) -> None:
    """The example implements the hook and compiles."""
    hook = HOOKS[name]
    signature = inspect.signature(hook)
    assert all(item.annotation is not item.empty for item in signature.parameters.values())
    assert signature.return_annotation is not signature.empty

    first, _, example = inspect.cleandoc(hook.__doc__ or "").partition("Example::")
    assert first.strip().endswith((".", "…"))
    code = textwrap.dedent(example)
    assert f"def {name}(" in code
    assert "from mastra_core.plugins import" in code
    compile(code, name, "exec")


@pytest.mark.parametrize("name", HOOKS)
def test_calling_the_definition_itself_answers_nothing(name: str) -> None:
    """What a host without plugins would get."""
    hook = HOOKS[name]
    answer = hook(*(None for _ in inspect.signature(hook).parameters))

    assert answer in (None, ())


def test_every_hook_without_arguments_has_its_descriptor() -> None:
    """The status list asks all of them."""
    without = {
        name
        for name, hook in HOOKS.items()
        if not inspect.signature(hook).parameters and policy_of(hook) == "collect"
    }

    assert without == DESCRIPTORS.keys()


def test_a_definition_marked_with_bare_pluggy_collects() -> None:
    """Third parties may not know of policies."""

    def bare() -> None: ...

    assert "collect" == policy_of(bare)
    assert ["collect", "gather", "decide", "permit", "observe"] == [
        policy_of(hookspec(policy=policy)(lambda: None)) for policy in get_args(HookPolicy)
    ]
