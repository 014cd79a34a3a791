"""Who gets a scheme or name; and what to say if nobody has it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from mastra_conformance import case
from mastra_core.errors import (
    AdapterNotInstalledError,
    ConfigError,
    ModelNotFoundError,
    PluginBrokenError,
    PluginConflictError,
    PluginError,
    PluginIncompatibleError,
    PluginWarning,
    UnknownSchemeError,
)
from mastra_core.plugins import (
    AdapterContext,
    CliCommand,
    LeaseSpec,
    ModelProviderSpec,
    ProcessorSpec,
    PubSubSpec,
    Registry,
    SignalProviderSpec,
    StorageSpec,
    hookimpl,
    parse_adapter_url,
)
from mastra_core.plugins.making import create_processor, make_model, make_with_options
from mastra_core.plugins.manager import PluginManager

MakeManager = Callable[..., PluginManager]


class Adapters:
    """A plugin that offers one adapter for storage, and others for the other roles."""

    def __init__(self, *schemes: str, roles: tuple[str, ...] = ("storage",)) -> None:
        self.schemes, self.roles = schemes, roles

    def _specs(self, role: str, cls: type[Any]) -> list[Any]:
        if role not in self.roles:
            return []
        return [cls(name="own", schemes=self.schemes, factory=object, drivers=("slow", "fast"))]

    @hookimpl
    def mastra_storage_adapters(self) -> list[StorageSpec]:
        return self._specs("storage", StorageSpec)

    @hookimpl
    def mastra_pubsub_adapters(self) -> list[PubSubSpec]:
        return self._specs("pubsub", PubSubSpec)

    @hookimpl
    def mastra_lease_adapters(self) -> list[LeaseSpec]:
        return self._specs("lease", LeaseSpec)


def storage(manager: PluginManager, url: str) -> str:
    """The distribution or name of the plugin that gets the URL."""
    return Registry(manager).adapter("storage", parse_adapter_url(url)).record.label


# Order ----------------------------------------------------------------------------------


def test_handed_in_plugin_comes_first_and_nothing_else_is_imported(
    site: Any, make_manager: MakeManager
) -> None:
    """Not even a scan is needed."""
    site.add_good("mastra-postgres", "postgresql")
    manager = make_manager(Adapters("postgresql"))

    assert "Adapters" == storage(manager, "postgresql://h/d")
    assert set() == site.imported()


def test_builtin_comes_before_entry_points(site: Any, make_manager: MakeManager) -> None:
    """Schemes of the core belong to the core; the other claim is shown as a conflict."""
    site.add_good("mastra-inside", "memory")
    site.add_good("mastra-outside", "memory", "outside")
    manager = make_manager(builtins=("mastra_inside.plugin",), enable=frozenset({"outside"}))

    assert "mastra-core" == storage(manager, "memory:")
    assert "mastra-outside" == storage(manager, "outside://")
    row = next(item for item in manager.status() if item.name == "outside")
    assert ("conflict", "storage scheme 'memory' belongs to mastra-core") == (
        row.status,
        row.reason,
    )


def test_known_scheme_imports_one_entry_point_of_ours(site: Any, make_manager: MakeManager) -> None:
    """Our other plugins claim nothing of it, so they stay asleep."""
    site.add_good("mastra-postgres", "postgresql", "postgres")
    site.add_good("mastra-redis", "redis")
    site.add_good("mastra-server")

    assert "mastra-postgres" == storage(make_manager(), "postgres://h/d")
    assert {"mastra_postgres"} == site.imported()


def test_unknown_scheme_imports_all(site: Any, make_manager: MakeManager) -> None:
    """Only they can say whose it is."""
    site.add_good("mastra-redis", "redis")
    site.add_good("mastra-acme", "acme")

    assert "mastra-acme" == storage(make_manager(), "acme://h")
    assert {"mastra_acme", "mastra_redis"} == site.imported()


# Conflicts ------------------------------------------------------------------------------


def test_duplicate_scheme_has_no_silent_winner(site: Any, make_manager: MakeManager) -> None:
    """An error when it is used, with the setting that decides; other schemes work."""
    site.add_good("mastra-postgres", "postgresql", "postgres")
    site.add_good("mastra-acme", "postgresql", "acme")
    manager = make_manager()

    with pytest.raises(PluginConflictError) as caught:
        storage(manager, "postgresql://h/d")

    assert "mastra-acme and mastra-postgres" in str(caught.value)
    assert '[plugins.prefer] postgresql = "' in str(caught.value)
    assert ["mastra-acme", "mastra-postgres"] == [
        storage(manager, url) for url in ("acme://h", "postgres://h/d")
    ]
    assert {
        ("acme", "conflict", "storage scheme 'postgresql' is also claimed by mastra-postgres"),
        ("postgres", "conflict", "storage scheme 'postgresql' is also claimed by mastra-acme"),
    } == {(item.name, item.status, item.reason) for item in manager.status()}


@pytest.mark.parametrize("winner", ["mastra-acme", "acme"])
def test_a_setting_decides_a_conflict(winner: str, site: Any, make_manager: MakeManager) -> None:
    """By distribution or by name; then only the winner is imported."""
    site.add_good("mastra-postgres", "postgresql")
    site.add_good("mastra-acme", "postgresql")
    manager = make_manager(prefer={"postgresql": winner})

    assert "mastra-acme" == storage(manager, "postgresql://h/d")
    assert {"mastra_acme"} == site.imported()
    assert {"active"} == {item.status for item in manager.status()}


def test_preferring_somebody_who_doesnt_have_it_is_an_error(
    site: Any, make_manager: MakeManager
) -> None:
    """The message says who does."""
    site.add_good("mastra-postgres", "postgresql")
    manager = make_manager(prefer={"postgresql": "mastra-nope"})

    with pytest.raises(ConfigError, match="is offered by mastra-postgres"):
        storage(manager, "postgresql://h/d")
    assert {"active"} == {item.status for item in manager.status()}


def test_two_handed_in_plugins_conflict_by_name(make_manager: MakeManager) -> None:
    """They have no distribution."""

    class Other(Adapters):
        pass

    with pytest.raises(PluginConflictError, match="claimed by Adapters and Other"):
        storage(make_manager(Adapters("acme"), Other("acme")), "acme://h")


def test_two_plugins_of_one_distribution_conflict_by_name(
    site: Any, make_manager: MakeManager
) -> None:
    """The distribution alone would say nothing."""
    site.add_good("mastra-one", "acme", second=SECOND_PLUGIN)
    site.add(
        "mastra-two", entry_points={"a": "mastra_one.plugin", "b": "mastra_one.second"}, plugin=""
    )

    with pytest.raises(PluginConflictError, match="claimed by a and b"):
        storage(make_manager(enable=frozenset({"a", "b"})), "acme://h")


SECOND_PLUGIN = """
    from mastra_core.plugins import StorageSpec, hookimpl
    MASTRA_PLUGIN_API = (1, 0)

    @hookimpl
    def mastra_storage_adapters():
        yield StorageSpec(name="x", schemes=("acme",), factory="mastra_one.store:Store")
"""


def test_one_name_in_two_distributions(site: Any, make_manager: MakeManager) -> None:
    """Both are loaded; only what both claim is in conflict."""
    point = {"acme": "mastra_one.plugin"}
    site.add_good("mastra-one", "one")
    site.add("mastra-one", entry_points=point)
    site.add_good("mastra-two", "two")
    site.add("mastra-two", entry_points={"acme": "mastra_two.plugin"})
    manager = make_manager()

    assert ["mastra-one", "mastra-two"] == [storage(manager, f"{n}://") for n in ("one", "two")]


# Nobody has it --------------------------------------------------------------------------


def test_known_scheme_without_its_package(site: Any, make_manager: MakeManager) -> None:
    """One command mends it, whatever else is installed."""
    site.add_good("mastra-other")
    with pytest.raises(AdapterNotInstalledError) as caught:
        storage(make_manager(), "postgresql://h/d")
    assert (
        "No adapter for 'postgresql://' is installed. "
        "Install it with: pip install 'mastra-core[postgres]'"
    ) == str(caught.value)

    with pytest.raises(ImportError, match=r"No adapter for 'file:' is installed\. .*\[libsql\]"):
        storage(make_manager(), "file:x.db")


def test_unknown_scheme_is_answered_with_the_one_that_was_meant(
    make_manager: MakeManager,
) -> None:
    """The exact text of design 4.7; the password isn't in it."""
    with pytest.raises(UnknownSchemeError) as caught:
        storage(make_manager(), "postgress://db.example/app")

    assert (
        "Unknown storage scheme 'postgress' in 'postgress://db.example/app'. "
        "Did you mean 'postgresql'? Known: file, libsql, memory, mongodb, postgresql, redis."
    ) == str(caught.value)
    with pytest.raises(UnknownSchemeError) as caught:
        storage(make_manager(Adapters("acme")), "acmee://u:geheim@h")
    assert "Did you mean 'acme'? Known: acme, file" in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_role_that_the_adapter_doesnt_have(make_manager: MakeManager) -> None:
    """Installed or not, ours or not."""
    with pytest.raises(ConfigError) as caught:
        storage(make_manager(), "unix:/run/m.sock")
    assert "Adapter 'unix_socket' offers pubsub and lease, but no storage." == str(caught.value)

    manager = make_manager(Adapters("acme", roles=("storage", "lease")))
    with pytest.raises(ConfigError, match="'own' offers storage and lease, but no pubsub"):
        Registry(manager).adapter("pubsub", parse_adapter_url("acme://h"))


def test_plugin_of_ours_that_offers_nothing(site: Any, make_manager: MakeManager) -> None:
    """It is installed, so an install command would be no help."""
    site.add("mastra-unix-socket", plugin="MASTRA_PLUGIN_API = (1, 0)")

    expected = r"mastra-unix-socket 1\.2\.0\) is installed, but offers"
    with pytest.raises(PluginError, match=expected):
        Registry(make_manager()).adapter("pubsub", parse_adapter_url("unix:/run/m.sock"))


def test_scheme_of_the_core_without_the_core_s_plugins(make_manager: MakeManager) -> None:
    """A mistake of whoever made the manager."""
    with pytest.raises(PluginError, match="belongs to mastra-core"):
        storage(make_manager(), "memory:")


def test_broken_plugin_of_a_known_scheme_raises_its_own_error(
    site: Any, make_manager: MakeManager
) -> None:
    """Silent only while nobody needs it."""
    site.add("mastra-redis", plugin="import nothing_like_this")
    manager = make_manager()

    with pytest.warns(PluginWarning), pytest.raises(PluginBrokenError) as caught:
        storage(manager, "redis://h")

    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_unknown_scheme_hints_at_plugins_that_were_put_aside(
    site: Any, make_manager: MakeManager
) -> None:
    """Perhaps one of them has it."""
    site.add("mastra-bad", plugin="1 / 0")

    with pytest.warns(PluginWarning), pytest.raises(UnknownSchemeError) as caught:
        storage(make_manager(), "acme://h")

    assert caught.value.hint is not None
    assert "put aside and may have it: bad." in caught.value.hint


def test_unknown_driver_lists_the_known_ones(make_manager: MakeManager) -> None:
    """Known ones pass."""
    manager = make_manager(Adapters("acme"))

    assert "Adapters" == storage(manager, "acme+fast://h")
    with pytest.raises(ConfigError, match=r"no driver 'warp'.* Known: slow, fast\."):
        storage(manager, "acme+warp://h")


# Other kinds ----------------------------------------------------------------------------


class Item:
    def __init__(self, settings: object, context: object = None) -> None:
        self.id, self.settings = "item", settings


class Things:
    @hookimpl
    def mastra_processors(self) -> list[ProcessorSpec]:
        return [
            ProcessorSpec(
                name="regex-filter", factory=Item, settings="mastra_core.config:PluginsSection"
            )
        ]

    @hookimpl
    def mastra_model_providers(self) -> list[ModelProviderSpec]:
        return [ModelProviderSpec(name="hosted", prefixes=("openai", "groq"), factory=Item)]

    @hookimpl
    def mastra_signal_providers(self) -> list[SignalProviderSpec]:
        return [SignalProviderSpec(name="webhook-signals", factory=Item)]

    @hookimpl
    def mastra_cli_commands(self) -> list[CliCommand]:
        return [CliCommand(name="look", help="Look.", factory=print)]


def test_named_things_are_found(make_manager: MakeManager) -> None:
    """By the name or prefix that the descriptor claims."""
    registry = Registry(make_manager(Things()))

    assert "regex-filter" == registry.processor("regex-filter").spec.name
    assert "hosted" == registry.model_provider("groq").spec.name
    assert "webhook-signals" == registry.signal_provider("webhook-signals").spec.name
    assert ["look"] == [offer.spec.name for offer in registry.cli_commands()]
    assert [(), (), (), ()] == [
        registry.http_routes(),
        registry.span_exporters(),
        registry.wire_codecs(),
        registry.doctor_checks(),
    ]


def test_unknown_names_are_answered_with_the_closest(make_manager: MakeManager) -> None:
    """And with the list of all."""
    registry = Registry(make_manager(Things()))

    with pytest.raises(ConfigError, match=r"Unknown processor 'regexfilter'\. Did you mean 'reg"):
        registry.processor("regexfilter")
    with pytest.raises(ModelNotFoundError, match=r"Did you mean 'openai'\? Known: groq, openai"):
        registry.model_provider("openay")
    with pytest.raises(ConfigError, match=r"Unknown signal provider 'x'\. Known: webhook-signals"):
        registry.signal_provider("x")
    with pytest.raises(ConfigError, match=r"Unknown processor 'x'\. Known: none\."):
        Registry(make_manager()).processor("x")


def test_things_are_made_with_checked_options(make_manager: MakeManager) -> None:
    """Processor, model, signal provider."""
    registry, context = Registry(make_manager(Things())), AdapterContext()

    processor: Any = create_processor(registry, "regex-filter", {"strict": "1"}, context)
    model: Any = make_model(registry, "openai/gpt/4", context)
    provider: Any = make_with_options(
        registry.signal_provider("webhook-signals"), {"a": 1}, context
    )

    assert processor.settings.strict is True
    assert ["gpt/4", {"a": 1}] == [model.settings, provider.settings]
    with pytest.raises(ConfigError, match="Unknown setting 'strickt' in the options of"):
        create_processor(registry, "regex-filter", {"strickt": 1}, context)


@case("processors", 47)
def test_processor_of_a_plugin_s_own_making_comes_first(make_manager: MakeManager) -> None:
    """``mastra_create_processor`` (processors.md 10.3)."""
    made = Item("own")

    class Creating:
        @hookimpl(tryfirst=True)
        def mastra_create_processor(self, processor_id: str) -> Item | None:
            return made if processor_id == "regex-filter" else None

    registry = Registry(make_manager(Things(), Creating()))

    assert made is create_processor(registry, "regex-filter", {}, AdapterContext())


class FilterOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")

    chunk_window: int = Field(alias="chunkWindow", ge=0)


@case("processors", 50)
def test_options_stored_in_camel_case_arrive_as_a_model(
    make_manager: MakeManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Configurations that the TypeScript system wrote."""
    module = ModuleType("mastra_filter_options_of_test")
    module.FilterOptions = FilterOptions  # type: ignore[attr-defined]  # made for the import string
    monkeypatch.setitem(sys.modules, module.__name__, module)

    class Offering:
        @hookimpl
        def mastra_processors(self) -> list[ProcessorSpec]:
            settings = f"{module.__name__}:FilterOptions"
            return [ProcessorSpec(name="filter", factory=Item, settings=settings)]

    registry = Registry(make_manager(Offering()))
    made: Any = create_processor(registry, "filter", {"chunkWindow": 3}, AdapterContext())

    assert FilterOptions(chunkWindow=3) == made.settings
    assert 3 == made.settings.chunk_window


SHORT_FORM = """
    class Quiet:
        def __init__(self, options, context):
            self.id, self.options = "quiet", options

    def broken(options, context):
        raise RuntimeError("no")

    def future(options, context):
        return None

    future.MASTRA_PROCESSOR_API = 2
"""


def test_short_form_is_one_processor_and_imported_when_used(
    site: Any, make_manager: MakeManager
) -> None:
    """The name of the entry point is the id; options arrive as a dict."""
    site.add(
        "mastra-quiet",
        entry_points={},
        processors={"quiet": "mastra_quiet.main:Quiet"},
        summary="Says little.",
        main=SHORT_FORM,
    )
    registry = Registry(make_manager())

    (offer,) = registry.processors()
    assert ("quiet", "Says little.", set()) == (
        offer.spec.name,
        offer.spec.summary,
        site.imported(),
    )
    made: Any = create_processor(registry, "quiet", {"x": 1}, AdapterContext())
    assert {"x": 1} == made.options
    assert [("quiet", "active")] == [(i.name, i.status) for i in registry.manager.status()]


def test_bad_short_forms(site: Any, make_manager: MakeManager) -> None:
    """A value of the wrong form is put aside; a failing factory is an error of its user."""
    site.add(
        "mastra-quiet",
        entry_points={},
        processors={
            "broken": "mastra_quiet.main:broken",
            "absent": "mastra_quiet.main:Absent",
            "nowhere": "mastra_quiet.main",
            "future": "mastra_quiet.main:future",
        },
        main=SHORT_FORM,
    )
    registry, context = Registry(make_manager()), AdapterContext()

    with pytest.warns(PluginWarning, match="Plugin 'nowhere'"):
        assert ["absent", "broken", "future"] == [
            offer.spec.name for offer in registry.processors()
        ]
    with pytest.raises(PluginBrokenError, match="RuntimeError: no"):
        create_processor(registry, "broken", {}, context)
    with pytest.raises(PluginBrokenError, match="has no attribute 'Absent'"):
        create_processor(registry, "absent", {}, context)
    with pytest.raises(PluginBrokenError):
        create_processor(registry, "nowhere", {}, context)
    for _ in range(2):
        with pytest.raises(PluginIncompatibleError, match="needs processor API 2;"):
            create_processor(registry, "future", {}, context)


def test_blocked_short_form_isnt_offered(site: Any, make_manager: MakeManager) -> None:
    """Blocking works for both groups."""
    site.add(
        "mastra-quiet",
        entry_points={},
        processors={"quiet": "mastra_quiet.main:Quiet"},
        main=SHORT_FORM,
    )

    registry = Registry(make_manager(disable=frozenset({"quiet"})))

    assert () == registry.processors()


@pytest.mark.parametrize("replace", [False, True])
def test_two_processors_of_one_name(replace: bool, make_manager: MakeManager) -> None:
    """A conflict, unless one of them says that it replaces the other."""

    class Replacing:
        @hookimpl
        def mastra_processors(self) -> list[ProcessorSpec]:
            return [ProcessorSpec(name="regex-filter", factory=dict, replace=replace)]

    registry = Registry(make_manager(Things(), Replacing()))

    if replace:
        assert dict is registry.processor("regex-filter").spec.factory
    else:
        with pytest.raises(PluginConflictError, match="The processor 'regex-filter' is claimed"):
            registry.processor("regex-filter")


def test_agent_tools_are_tools(make_manager: MakeManager) -> None:
    """Anything else is a fault of the plugin."""

    class Giving:
        @hookimpl
        def mastra_agent_tools(self, agent: object) -> list[object]:
            return [agent]

    with pytest.raises(PluginBrokenError, match="yielded str, not Tool"):
        Registry(make_manager(Giving())).agent_tools(agent="x", request_context={})  # type: ignore[arg-type]  # any agent
