"""Descriptors say clearly what is wrong with them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mastra_core.contracts.lease import LeaseCapabilities
from mastra_core.contracts.pubsub import PubSubCapabilities
from mastra_core.errors import ConfigError
from mastra_core.plugins.specs import (
    DESCRIPTORS,
    CliCommand,
    Descriptor,
    DoctorCheck,
    ExporterSpec,
    HttpRoutes,
    LeaseSpec,
    ModelProviderSpec,
    Placed,
    ProcessorSpec,
    PubSubSpec,
    SignalProviderSpec,
    StorageSpec,
    WireCodec,
)

FACTORY = "pkg.mod:make"
ADAPTER: dict[str, Any] = {"name": "acme", "schemes": ("acme",), "factory": FACTORY}
CODEC: dict[str, Any] = {"name": "money", "tag": "Money", "type": int, "encode": str, "decode": int}


class Item:
    id = "item"


GOOD: list[tuple[type[Any], dict[str, Any]]] = [
    (StorageSpec, ADAPTER),
    (StorageSpec, {**ADAPTER, "capabilities": frozenset({"memory", "memory.copy_thread"})}),
    (StorageSpec, {**ADAPTER, "factory": Item, "settings": "pkg.mod:Settings.Inner"}),
    (PubSubSpec, ADAPTER),
    (PubSubSpec, {**ADAPTER, "capabilities": PubSubCapabilities(durable=True)}),
    (LeaseSpec, {**ADAPTER, "schemes": ("mongodb+srv", "a-b.c"), "drivers": ("x", "y_z")}),
    (ProcessorSpec, {"name": "mastra/response-cache", "factory": FACTORY}),
    (ProcessorSpec, {"name": "a", "factory": FACTORY, "phases": frozenset({"process_input"})}),
    (ModelProviderSpec, {"name": "open-ai", "factory": FACTORY, "prefixes": ("openai", "oai")}),
    (SignalProviderSpec, {"name": "hooks", "factory": FACTORY, "settings": FACTORY}),
    (ExporterSpec, {"name": "otlp", "factory": FACTORY, "settings": FACTORY}),
    (ExporterSpec, {"name": "console", "factory": FACTORY}),
    (HttpRoutes, {"name": "acme", "factory": FACTORY, "prefix": "/acme"}),
    (HttpRoutes, {"name": "acme", "factory": FACTORY, "prefix": "/"}),
    (CliCommand, {"name": "acme-look", "factory": FACTORY, "help": "Look."}),
    (DoctorCheck, {"name": "acme", "factory": FACTORY}),
    (WireCodec, CODEC),
]

BAD: list[tuple[type[Any], dict[str, Any], str]] = [
    (StorageSpec, {**ADAPTER, "name": "Acme"}, "name 'Acme' doesn't match"),
    (StorageSpec, {**ADAPTER, "name": "a-b"}, "name 'a-b' doesn't match"),
    (StorageSpec, {**ADAPTER, "name": 7}, "name 7 doesn't match"),
    (StorageSpec, {**ADAPTER, "schemes": ()}, "schemes is empty"),
    (StorageSpec, {**ADAPTER, "schemes": ["acme"]}, "schemes is not a tuple"),
    (StorageSpec, {**ADAPTER, "schemes": ("acme://",)}, "schemes has 'acme://'"),
    (StorageSpec, {**ADAPTER, "schemes": ("a", "a")}, "schemes names something twice"),
    (StorageSpec, {**ADAPTER, "drivers": ("+x",)}, "drivers has '+x'"),
    (StorageSpec, {**ADAPTER, "factory": "pkg.mod"}, "not of the form 'package.module:name'"),
    (StorageSpec, {**ADAPTER, "factory": 7}, "neither an import string nor callable"),
    (StorageSpec, {**ADAPTER, "settings": "x"}, "settings 'x' is not of the form"),
    (StorageSpec, {**ADAPTER, "capabilities": {"memory"}}, "capabilities is not a frozenset"),
    (
        StorageSpec,
        {**ADAPTER, "capabilities": frozenset({"memory.copy_thread"})},
        "'memory.copy_thread' implies 'memory', which is not declared.",
    ),
    (StorageSpec, {**ADAPTER, "capabilities": frozenset({"fly"})}, "'fly' is not a known"),
    (
        StorageSpec,
        {**ADAPTER, "capabilities": frozenset({"lease.watch"})},
        "'lease.watch' is not a capability of a storage",
    ),
    (PubSubSpec, {**ADAPTER, "capabilities": frozenset()}, "is not a PubSubCapabilities"),
    (
        PubSubSpec,
        {**ADAPTER, "capabilities": PubSubCapabilities(fencing=True)},
        "'pubsub.fencing' implies 'pubsub.leases'",
    ),
    (LeaseSpec, {**ADAPTER, "capabilities": frozenset()}, "is not a LeaseCapabilities"),
    (
        LeaseSpec,
        {**ADAPTER, "capabilities": LeaseCapabilities(cross_host=True)},
        "'lease.cross_host' implies 'lease.cross_process'",
    ),
    (ProcessorSpec, {"name": "a", "factory": FACTORY, "settings": "x"}, "settings 'x' is not"),
    (
        ProcessorSpec,
        {"name": "a", "factory": FACTORY, "phases": frozenset({"process_moon"})},
        "phases has unknown names: 'process_moon'",
    ),
    (ModelProviderSpec, {"name": "a", "factory": FACTORY, "prefixes": ("a/",)}, "prefixes has"),
    (SignalProviderSpec, {"name": "a", "factory": FACTORY, "settings": "x"}, "settings 'x'"),
    (ExporterSpec, {"name": "a", "factory": FACTORY, "settings": "x"}, "settings 'x'"),
    (HttpRoutes, {"name": "a", "factory": FACTORY, "prefix": "a"}, "prefix 'a' must start"),
    (HttpRoutes, {"name": "a", "factory": FACTORY, "prefix": "/a/"}, "prefix '/a/' must start"),
    (WireCodec, {**CODEC, "tag": ""}, "tag is empty"),
    (WireCodec, {**CODEC, "type": "int"}, "type 'int' is not a class"),
    (WireCodec, {**CODEC, "encode": None}, "encode is not callable"),
]


@pytest.mark.parametrize(("cls", "members"), GOOD)
def test_good_descriptors_are_frozen_values(cls: type[Any], members: dict[str, Any]) -> None:
    """Equal if their members are, unchangeable, without a dict of their own."""
    spec = cls(**members)

    assert spec == cls(**members)
    assert not hasattr(spec, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.name = "other"


@pytest.mark.parametrize(("cls", "members", "text"), BAD)
def test_bad_descriptors_are_refused(cls: type[Any], members: dict[str, Any], text: str) -> None:
    """The message names the descriptor and the fault."""
    with pytest.raises(ConfigError) as caught:
        cls(**members)

    assert f"{cls.__name__} {members['name']!r} is not valid: " in str(caught.value)
    assert text in str(caught.value)
    assert ".." not in str(caught.value)


def test_descriptors_take_keywords_only() -> None:
    """So that members can be added."""
    with pytest.raises(TypeError):
        DoctorCheck("acme", FACTORY)  # type: ignore[call-arg]  # that is the point


def test_a_model_provider_without_prefixes_answers_to_its_name() -> None:
    """The usual case needs no repetition."""
    assert ("acme",) == ModelProviderSpec(name="acme", factory=FACTORY).all_prefixes


def test_roles_are_those_of_the_classes() -> None:
    """No instance can claim another one."""
    assert ["storage", "pubsub", "lease"] == [
        StorageSpec.role,
        PubSubSpec.role,
        LeaseSpec.role,
    ]


def test_placed_refuses_unknown_slots() -> None:
    """The message lists those that exist."""
    assert ("user", 0) == (Placed(processor=Item()).slot, Placed(processor=Item()).order)
    with pytest.raises(ConfigError, match="Slot 'attic' is not one of memory, workspace"):
        Placed(processor=Item(), slot="attic")


def test_each_descriptor_of_a_hook_is_a_descriptor() -> None:
    """The table that the manager works with."""
    assert all(issubclass(item, Descriptor) for item in DESCRIPTORS.values())
