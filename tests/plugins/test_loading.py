"""Bad plugins are put aside, named once, and never harm the healthy one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, Mastra
from mastra_core.errors import (
    PluginBlockedError,
    PluginBrokenError,
    PluginError,
    PluginIncompatibleError,
    PluginWarning,
)
from mastra_core.plugins import Registry, parse_adapter_url
from mastra_core.plugins.manager import PluginManager
from mastra_core.testing.scripted_model import ScriptedModel, text

MakeManager = Callable[..., PluginManager]

RAISES_AT_IMPORT = "raise ImportError(\"cannot import name 'X'\\nsecond line\")"
EXITS_AT_IMPORT = "import sys\nsys.exit(3)"
RAISES_IN_HOOK = """
    from mastra_core.plugins import StorageSpec, hookimpl
    MASTRA_PLUGIN_API = (1, 0)

    @hookimpl
    def mastra_storage_adapters():
        yield StorageSpec(name="bad", schemes=("bad",), factory="mastra_bad.store:Store")
        raise RuntimeError("out of luck")
"""
EXITS_IN_HOOK = RAISES_IN_HOOK.replace('raise RuntimeError("out of luck")', "raise SystemExit(1)")
FUTURE_API = "MASTRA_PLUGIN_API = (1, 4)"
OTHER_MAJOR_API = "MASTRA_PLUGIN_API = (2, 0)"
STRANGE_API = 'MASTRA_PLUGIN_API = "1.0"'
FUTURE_PROCESSOR_API = "MASTRA_PLUGIN_API = (1, 0)\nMASTRA_PROCESSOR_API = 2"
UNKNOWN_HOOK = """
    from mastra_core.plugins import hookimpl
    MASTRA_PLUGIN_API = (1, 0)

    @hookimpl
    def mastra_fly():
        return None
"""
WRAPPER = """
    from mastra_core.plugins import hookimpl
    MASTRA_PLUGIN_API = (1, 0)

    @hookimpl(wrapper=True)
    def mastra_storage_adapters():
        return (yield)
"""
UNKNOWN_ARGUMENT = """
    from mastra_core.plugins import hookimpl
    MASTRA_PLUGIN_API = (1, 0)

    @hookimpl
    def mastra_storage_adapters(weather):
        return []
"""
ASYNC_COLLECT = """
    from mastra_core.plugins import hookimpl
    MASTRA_PLUGIN_API = (1, 0)

    @hookimpl
    async def mastra_storage_adapters():
        return []
"""
WRONG_ITEM = """
    from mastra_core.plugins import hookimpl
    MASTRA_PLUGIN_API = (1, 0)

    @hookimpl
    def mastra_storage_adapters():
        yield "acme"
"""
BAD_DESCRIPTOR = RAISES_IN_HOOK.replace('name="bad"', 'name="Bad!"')
NOT_ITERABLE = WRONG_ITEM.replace('yield "acme"', "return 7")
RAISES_IN_ADDHOOKS = """
    from mastra_core.plugins import hookimpl
    MASTRA_PLUGIN_API = (1, 0)

    @hookimpl
    def mastra_addhooks(manager):
        raise LookupError("no hooks here")
"""

RAISES_WHEN_LISTED = """
    MASTRA_PLUGIN_API = (1, 0)

    def __dir__():
        raise ValueError("look away")
"""

BAD = {
    "raises when listed": (RAISES_WHEN_LISTED, "broken", "ValueError: look away"),
    "raises at import": (RAISES_AT_IMPORT, "broken", "ImportError: cannot import name 'X'"),
    "exits at import": (EXITS_AT_IMPORT, "broken", "SystemExit: 3"),
    "raises in a hook": (RAISES_IN_HOOK, "broken", "RuntimeError: out of luck"),
    "exits in a hook": (EXITS_IN_HOOK, "broken", "SystemExit: 1"),
    "future API": (FUTURE_API, "incompatible", "needs plugin API 1.4;"),
    "other major API": (OTHER_MAJOR_API, "incompatible", "needs plugin API 2.0;"),
    "API that is no pair": (STRANGE_API, "broken", "MASTRA_PLUGIN_API is '1.0'"),
    "future processor API": (FUTURE_PROCESSOR_API, "incompatible", "needs processor API 2;"),
    "unknown hook": (UNKNOWN_HOOK, "incompatible", "implements the unknown hook 'mastra_fly'"),
    "wrapper": (WRAPPER, "incompatible", "wraps the hook 'mastra_storage_adapters'"),
    "unknown argument": (UNKNOWN_ARGUMENT, "broken", "PluginValidationError"),
    "async function": (ASYNC_COLLECT, "broken", "must be a plain function"),
    "wrong item": (WRONG_ITEM, "broken", "yielded str, not StorageSpec"),
    "bad descriptor": (BAD_DESCRIPTOR, "broken", "ConfigError"),
    "not iterable": (NOT_ITERABLE, "broken", "TypeError"),
    "raises in addhooks": (RAISES_IN_ADDHOOKS, "broken", "LookupError: no hooks here"),
}


def statuses(manager: PluginManager) -> dict[str, str]:
    return {item.name: item.status for item in manager.status()}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_plugin_is_named_once_and_the_healthy_one_works(
    kind: str, site: Any, make_manager: MakeManager
) -> None:
    """Whatever is wrong with one plugin, the other one offers its adapter."""
    text, status, reason = BAD[kind]
    site.add("mastra-bad", plugin=text)
    site.add_good()
    manager = make_manager()

    with pytest.warns(PluginWarning) as caught:
        rows = {item.name: item for item in manager.status()}

    assert list(rows.values()) == list(manager.status())
    assert ["bad"] == [str(item.message).split("'")[1] for item in caught]
    assert "mastra-bad 1.2.0" in str(caught[0].message)
    assert (status, "active") == (rows["bad"].status, rows["good"].status)
    assert reason in rows["bad"].reason
    assert "\n" not in rows["bad"].reason
    offer = Registry(manager).adapter("storage", parse_adapter_url("good://x"))
    assert "good" == offer.spec.name


def test_nothing_of_a_hook_that_failed_half_way_is_kept(
    site: Any, make_manager: MakeManager
) -> None:
    """The first descriptor is thrown away, and asking for it gives the original exception."""
    site.add("mastra-bad", plugin=RAISES_IN_HOOK)
    manager = make_manager()

    with (
        pytest.warns(PluginWarning),
        pytest.raises(PluginBrokenError) as caught,
    ):
        Registry(manager).adapter("storage", parse_adapter_url("bad://x"))

    assert (
        "Plugin 'bad' (mastra-bad 1.2.0) could not be loaded: RuntimeError: out of luck. "
        "Details: python -m mastra_core plugins bad"
    ) == str(caught.value)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_incompatible_plugin_says_what_to_do(site: Any, make_manager: MakeManager) -> None:
    """The message names both versions and both ways out."""
    from mastra_core import __version__

    site.add("mastra-acme", plugin="MASTRA_PLUGIN_API = (2, 0)")

    with pytest.raises(PluginIncompatibleError) as caught:
        make_manager("acme")

    assert (
        f"Plugin 'acme' (mastra-acme 1.2.0) needs plugin API 2.0; mastra-core {__version__} "
        "offers 1.0. Upgrade mastra-core or install an older mastra-acme."
    ) == str(caught.value)


def test_keyboard_interrupt_is_not_contained(site: Any, make_manager: MakeManager) -> None:
    """The user wants to stop, and nobody stands in the way."""
    site.add("mastra-bad", plugin="raise KeyboardInterrupt")

    with pytest.raises(KeyboardInterrupt):
        make_manager().load_all()


@pytest.mark.parametrize(
    "options", [{"disable": frozenset({"bad"})}, {"disable": frozenset({"mastra-bad"})}]
)
def test_a_blocked_plugin_is_never_imported(
    options: dict[str, Any], site: Any, make_manager: MakeManager
) -> None:
    """Blocking by name or by distribution; no warning, as the user asked for it."""
    site.add("mastra-bad", plugin=RAISES_AT_IMPORT)
    site.add_good()
    manager = make_manager(**options)

    assert {"bad": "blocked", "good": "active"} == statuses(manager)
    assert {"mastra_good"} == site.imported()
    with pytest.raises(PluginBlockedError, match="Plugin 'bad' is installed, but switched off"):
        Registry(manager).adapter("storage", parse_adapter_url("bad://x"))


def test_only_listed_plugins_are_used_if_there_is_a_list(
    site: Any, make_manager: MakeManager
) -> None:
    """What MASTRA_PLUGINS doesn't name is blocked."""
    site.add_good("mastra-one")
    site.add_good("mastra-two")
    manager = make_manager(enable=frozenset({"two"}))

    assert {"one": "blocked", "two": "active"} == statuses(manager)
    assert {"mastra_two"} == site.imported()


def test_naming_a_blocked_plugin_is_an_error(site: Any, make_manager: MakeManager) -> None:
    """Two wishes that can't both come true."""
    site.add_good()

    with pytest.raises(PluginBlockedError):
        make_manager("good", disable=frozenset({"good"}))


@case("processors", 49)
def test_strict_mode_turns_a_broken_plugin_into_an_error(
    site: Any, make_manager: MakeManager
) -> None:
    """Without it others load; with it start-up fails."""
    site.add("mastra-bad", plugin=RAISES_AT_IMPORT)
    site.add_good()

    with pytest.warns(PluginWarning):
        assert {"bad": "broken", "good": "active"} == statuses(make_manager())
    with pytest.raises(PluginBrokenError, match="cannot import name 'X'"):
        make_manager(strict=True).load_all()


def test_strict_mode_leaves_blocked_plugins_alone(site: Any, make_manager: MakeManager) -> None:
    """Blocking is a decision, not a fault."""
    site.add("mastra-bad", plugin=RAISES_AT_IMPORT)

    assert {"bad": "blocked"} == statuses(make_manager(strict=True, disable=frozenset({"bad"})))


def test_with_warnings_as_errors_the_manager_stays_consistent(
    site: Any, make_manager: MakeManager
) -> None:
    """The warning escapes as the user wished; afterwards everything is as without it."""
    site.add("mastra-bad", plugin=RAISES_AT_IMPORT)
    site.add_good()
    manager = make_manager()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PluginWarning):
            manager.load_all()

    assert {"bad": "broken", "good": "active"} == statuses(manager)


def test_failure_of_a_plugin_that_the_user_named_is_raised(
    site: Any, make_manager: MakeManager
) -> None:
    """By entry point, by import string, as object."""
    site.add("mastra-bad", plugin=RAISES_AT_IMPORT)

    with pytest.raises(PluginBrokenError, match=r"Plugin 'bad' \(mastra-bad 1\.2\.0\)"):
        make_manager("bad")
    with pytest.raises(PluginBrokenError, match=r"Plugin 'mastra_bad\.plugin' could not"):
        make_manager("mastra_bad.plugin")

    site.add("mastra-shy", plugin=RAISES_WHEN_LISTED)
    with pytest.raises(PluginBrokenError, match="look away"):
        make_manager("shy")

    class Flying:
        MASTRA_PLUGIN_API = (1, 4)

    with pytest.raises(PluginIncompatibleError, match=r"Plugin 'Flying' needs plugin API 1\.4"):
        make_manager(Flying())


def test_unknown_plugin_name_lists_the_installed_ones(site: Any, make_manager: MakeManager) -> None:
    """A plugin of ours comes with the command that installs it."""
    site.add_good()

    with pytest.raises(PluginError, match=r"No plugin 'nope' is installed\. Installed: good\."):
        make_manager("nope")
    with pytest.raises(ImportError, match=r"pip install 'mastra-core\[unix\]'"):
        make_manager("unix_socket")


def test_a_module_that_is_handed_in_isnt_loaded_a_second_time(
    site: Any, make_manager: MakeManager
) -> None:
    """Its entry point is the same plugin; one row remains, with the distribution."""
    import importlib

    site.add_good()
    module = importlib.import_module("mastra_good.plugin")
    manager = make_manager(module, module)

    rows = manager.status()

    assert [("mastra_good.plugin", "mastra-good", "instance")] == [
        (row.name, row.distribution, row.origin) for row in rows
    ]


def test_plugin_may_define_hooks_that_another_one_implements(
    site: Any, make_manager: MakeManager
) -> None:
    """Whichever is loaded first: definitions are heard before any plugin is judged."""
    site.add(
        "mastra-zoo",
        plugin="""
            from mastra_core.plugins import hookimpl
            from mastra_zoo import hooks
            MASTRA_PLUGIN_API = (1, 0)

            @hookimpl
            def mastra_addhooks(manager):
                manager.add_hookspecs(hooks)
        """,
        hooks="""
            from mastra_core.plugins import hookspec

            @hookspec(policy="decide")
            def zoo_animal(size): ...
        """,
    )
    site.add(
        "mastra-ape",
        plugin="""
            from mastra_core.plugins import hookimpl
            MASTRA_PLUGIN_API = (1, 0)

            @hookimpl
            def zoo_animal(size):
                return "ape" if size > 1 else None
        """,
    )
    manager = make_manager("ape")

    assert {"ape": "active", "zoo": "active"} == statuses(manager)
    assert "ape" == manager.decide("zoo_animal", size=2)
    assert manager.decide("zoo_animal", size=1) is None


def test_optional_hook_may_be_unknown(site: Any, make_manager: MakeManager) -> None:
    """The plugin says itself that it can do without."""
    site.add(
        "mastra-good", plugin=UNKNOWN_HOOK.replace("@hookimpl", "@hookimpl(optionalhook=True)")
    )

    (row,) = make_manager().status()

    assert ("active", ()) == (row.status, row.hooks)


def test_notes_on_active_plugins(site: Any, make_manager: MakeManager) -> None:
    """A missing API version, and a plugin that implements nothing, are said, not punished."""
    site.add("mastra-old", plugin="", summary="An old one.")
    site.add("mastra-unmarked", plugin="MASTRA_PLUGIN_API = (1, 0)\ndef mastra_startup(): ...")

    rows = {row.name: row for row in make_manager().status()}

    assert ("active", "active") == (rows["old"].status, rows["unmarked"].status)
    assert "doesn't state MASTRA_PLUGIN_API; (1, 0) is assumed" == rows["old"].reason
    assert "implements no hook; is the mark @hookimpl missing?" == rows["unmarked"].reason
    assert "An old one." == rows["old"].to_dict()["summary"]


def test_missing_builtins_are_left_out_and_broken_ones_are_not(
    site: Any, make_manager: MakeManager
) -> None:
    """A core without the in-memory adapter still loads."""
    site.add("mastra-core-like", entry_points={}, plugin=RAISES_AT_IMPORT)

    assert () == make_manager(builtins=("mastra_core.absent.plugin", "nowhere.plugin")).status()
    with pytest.warns(PluginWarning):
        rows = make_manager(builtins=("mastra_core_like.plugin",)).status()
    assert [("mastra_core_like", "broken", "builtin")] == [
        (row.name, row.status, row.origin) for row in rows
    ]


def test_builtins_can_be_disabled_but_need_no_listing(site: Any, make_manager: MakeManager) -> None:
    """MASTRA_PLUGINS speaks of what was installed, MASTRA_PLUGINS_DISABLE of everything."""
    site.add_good("mastra-small", store="")
    source = "mastra_small.plugin"

    listed = make_manager(builtins=(source,), enable=frozenset({"other"}))
    disabled = make_manager(builtins=(source,), disable=frozenset({"mastra_small"}))

    assert "active" == listed.status()[0].status
    assert "blocked" == disabled.status()[0].status


def test_two_managers_know_nothing_of_each_other(site: Any, make_manager: MakeManager) -> None:
    """No state outside of the manager."""
    site.add_good()

    class Extra:
        pass

    first = make_manager(Extra())
    second = make_manager()

    assert {"Extra": "active", "good": "active"} == statuses(first)
    assert {"good": "active"} == statuses(second)


NEWER_PROCESSORS = """
from mastra_core.plugins import Placed, hookimpl

MASTRA_PROCESSOR_API = 2


class Loud:
    id = "loud"

    def process_input(self, args):
        raise RuntimeError("of another version")


@hookimpl
def mastra_input_processors():
    yield Placed(processor=Loud(), slot="user")
"""


@case("processors", 48)
@pytest.mark.anyio
async def test_processors_of_a_newer_interface_are_left_out(site: Any) -> None:
    """One warning says so, and the agents of the application run without them."""
    site.add("mastra-newer", plugin=NEWER_PROCESSORS)
    agent = Agent(id="helper", model=ScriptedModel([[text("ok")]]))

    with pytest.warns(PluginWarning, match="needs processor API 2"):
        async with Mastra(storage="memory:", agents=[agent]):
            answer = await agent.generate("go")

    assert "ok" == answer["text"]
