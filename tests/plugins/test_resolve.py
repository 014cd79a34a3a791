"""From URLs and objects to an opened store, bus and lease provider."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import ModuleType, TracebackType
from typing import Any, Self

import pytest
from pydantic import BaseModel, ConfigDict, Field

from mastra_core.contracts.lease import LeaseCapabilities
from mastra_core.errors import (
    ConfigError,
    DegradedWarning,
    DriverNotInstalledError,
    PluginBrokenError,
    PluginConflictError,
    StorageError,
    UnknownSettingError,
)
from mastra_core.plugins import (
    AdapterContext,
    AdapterUrl,
    Infrastructure,
    LeaseSpec,
    PubSubSpec,
    StorageSpec,
    hookimpl,
    open_infrastructure,
    open_lease,
    open_pubsub,
    open_storage,
    parse_adapter_url,
)
from mastra_core.plugins.manager import PluginManager

pytestmark = pytest.mark.anyio

MakeManager = Callable[..., PluginManager]


class Settings(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    url: str
    driver: str | None = None
    schema_name: str = Field(default="public", alias="schema")
    pool_size: int = Field(default=4, ge=1)


class Opened:
    """One role of an adapter; all roles of a URL share one connection."""

    name = "acme"
    volatile = False
    lease_capabilities = LeaseCapabilities(cross_process=True)

    def __init__(self, settings: Any, context: AdapterContext) -> None:
        self.settings = settings
        self._shared = context.share("acme", connect)
        self.connection: list[str] = []

    async def __aenter__(self) -> Self:
        self.connection = await self._shared.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._shared.__aexit__(kind, error, traceback)

    def get_lease_provider(self) -> Opened | None:
        return None


@asynccontextmanager
async def connect() -> AsyncIterator[list[str]]:
    connection = ["open"]
    yield connection
    connection.append("closed")


class InProcess(Opened):
    name = "memory"
    volatile = True
    lease_capabilities = LeaseCapabilities()

    def get_lease_provider(self) -> Opened | None:
        return self


class Adapters:
    """Storage, pubsub and lease for ``acme:``, in-process ones for ``memory:``."""

    def __init__(self, settings_module: str | None = None, *, lease: bool = True) -> None:
        self.lease = lease
        self.settings = f"{settings_module}:Settings" if settings_module else None

    def _specs(self, cls: type[Any]) -> list[Any]:
        acme: dict[str, Any] = {
            "name": "acme",
            "schemes": ("acme",),
            "factory": make_opened,
            "drivers": ("fast",),
            "settings": self.settings,
        }
        memory: dict[str, Any] = {"name": "memory", "schemes": ("memory",), "factory": InProcess}
        return [cls(**memory), cls(**acme)]

    @hookimpl
    def mastra_storage_adapters(self) -> list[StorageSpec]:
        return self._specs(StorageSpec)

    @hookimpl
    def mastra_pubsub_adapters(self) -> list[PubSubSpec]:
        return self._specs(PubSubSpec)

    @hookimpl
    def mastra_lease_adapters(self) -> list[LeaseSpec]:
        return self._specs(LeaseSpec) if self.lease else self._specs(LeaseSpec)[:1]


def make_opened(settings: Any, context: AdapterContext) -> Opened:
    return Opened(settings, context)


@pytest.fixture
def settings_module(site: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name under which the settings model can be imported."""
    module = ModuleType("mastra_settings_of_test")
    module.Settings = Settings  # type: ignore[attr-defined]  # made for the import string
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.__name__


@pytest.fixture
def manager(make_manager: MakeManager, settings_module: str) -> PluginManager:
    """Offers all three roles under ``acme:`` and ``memory:``."""
    return make_manager(Adapters(settings_module))


def inside(opened: object) -> Any:
    """What the contract doesn't show of the adapter of these tests."""
    return opened


# One role -------------------------------------------------------------------------------


async def test_a_url_is_opened_and_closed(manager: PluginManager) -> None:
    """Settings come from the URL: the driver's part, the driver, our options."""
    text = "acme+fast://u:p@h/d?x=1&mastra_pool_size=9&mastra_schema=s"

    async with open_storage(text, manager) as opened:
        storage = inside(opened)
        assert ["open"] == storage.connection
        assert ("acme://u:p@h/d?x=1", "fast", "s", 9) == (
            storage.settings.url,
            storage.settings.driver,
            storage.settings.schema_name,
            storage.settings.pool_size,
        )
    assert ["open", "closed"] == storage.connection


async def test_a_parsed_url_is_as_good(manager: PluginManager) -> None:
    """Nobody parses twice."""
    async with open_lease(parse_adapter_url("acme:x"), manager) as opened:
        assert isinstance(opened, Opened)


async def test_options_of_the_configuration_fill_in(manager: PluginManager) -> None:
    """The URL wins, as it is nearer."""
    options = {"pool_size": 2, "schema": "c"}

    async with open_storage("acme:x?mastra_schema=u", manager, options=options) as opened:
        settings = opened.settings  # type: ignore[attr-defined]  # the adapter of this test
        assert (2, "u") == (settings.pool_size, settings.schema_name)


async def test_a_model_without_a_driver_isnt_given_one(
    make_manager: MakeManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most adapters have only one."""

    class Plain(BaseModel):
        model_config = ConfigDict(extra="forbid")

        url: str

    module = ModuleType("mastra_plain_settings_of_test")
    module.Settings = Plain  # type: ignore[attr-defined]  # made for the import string
    monkeypatch.setitem(sys.modules, module.__name__, module)

    async with open_storage("acme:x", make_manager(Adapters(module.__name__))) as opened:
        assert Plain(url="acme:x") == inside(opened).settings


async def test_without_a_model_the_factory_gets_the_url(make_manager: MakeManager) -> None:
    """And every option of ours is unknown."""
    manager = make_manager(Adapters())

    async with open_pubsub("memory:shared", manager) as opened:
        settings = opened.settings  # type: ignore[attr-defined]  # the adapter of this test
        assert isinstance(settings, AdapterUrl)
        assert "shared" == settings.path
    with pytest.raises(UnknownSettingError, match="Unknown setting 'mastra_x' in 'memory:"):
        async with open_pubsub("memory:shared?mastra_x=1", manager):
            pass


@pytest.mark.parametrize(
    ("url", "options", "text"),
    [
        (
            "acme://u:geheim@h?mastra_schemma=x",
            {},
            (
                "Unknown setting 'mastra_schemma' in 'acme://u:***@h?mastra_schemma=x'. "
                "Known: mastra_pool_size, mastra_schema, mastra_schema_name."
            ),
        ),
        ("acme:x", {"size": 1}, "'size' in 'acme:x'. Known: pool_size, schema, schema_name."),
        ("acme:x?mastra_url=y", {}, "Unknown setting 'mastra_url'"),
        (
            "acme:x",
            {"pool_size": 0},
            "Setting 'pool_size' in 'acme:x' is not valid: Input should be greater than or equal",
        ),
        (
            "acme://u:geheim@h?mastra_pool_size=many",
            {},
            (
                "Setting 'mastra_pool_size' in 'acme://u:***@h?mastra_pool_size=many' is not "
                "valid: Input should be a valid integer, unable to parse string as an integer."
            ),
        ),
    ],
)
async def test_wrong_options_are_named_with_the_known_ones(
    url: str, options: dict[str, Any], text: str, manager: PluginManager
) -> None:
    """The password is not shown."""
    with pytest.raises(ConfigError) as caught:
        async with open_storage(url, manager, options=options):
            pass

    assert text in str(caught.value)
    assert caught.value.__cause__ is None


async def test_an_object_is_used_as_it_is(manager: PluginManager) -> None:
    """It stays as it was, unless it is handed over."""
    theirs = inside(Opened(None, AdapterContext()))

    async with open_storage(theirs, manager) as opened:
        assert id(theirs) == id(opened)
        assert not theirs.connection
    async with open_storage(theirs, manager, own=True):
        assert ["open"] == theirs.connection
    assert ["open", "closed"] == theirs.connection


async def test_options_for_an_object_are_refused(manager: PluginManager) -> None:
    """They would have no effect."""
    theirs: Any = Opened(None, AdapterContext())

    with pytest.raises(ConfigError, match="Options for an open storage have no effect"):
        async with open_storage(theirs, manager, options={"a": 1}):
            pass
    with pytest.raises(ConfigError, match="int can't be opened as lease"):
        async with open_lease(7, manager, own=True):  # type: ignore[arg-type]  # that is the point
            pass


# Drivers and broken factories -----------------------------------------------------------

PLUGIN = """
    from mastra_core.plugins import StorageSpec, hookimpl
    MASTRA_PLUGIN_API = (1, 0)

    @hookimpl
    def mastra_storage_adapters():
        yield StorageSpec(
            name="acme", schemes=("acme",), factory="mastra_acme.store:Store", extra={extra!r}
        )
"""
LATE_IMPORT = """
    class Store:
        def __init__(self, settings, context):
            pass

        async def __aenter__(self):
            import no_such_driver.sub

        async def __aexit__(self, *exc_info):
            pass
"""


@pytest.mark.parametrize("store", ["import no_such_driver.sub", LATE_IMPORT])
@pytest.mark.parametrize(
    ("extra", "wanted"), [("acme", "mastra-core[acme]"), (None, "mastra-acme")]
)
async def test_missing_driver_names_the_command(
    store: str, extra: str | None, wanted: str, site: Any, make_manager: MakeManager
) -> None:
    """Whether it is missed while importing or while opening; nothing was imported before."""
    site.add("mastra-acme", version="0.4.0", plugin=PLUGIN.format(extra=extra), store=store)

    with pytest.raises(DriverNotInstalledError) as caught:
        async with open_storage("acme:x", make_manager()):
            pass

    assert (
        "mastra-acme 0.4.0 is installed, but its driver 'no_such_driver' is not. "
        f"Install it with: pip install '{wanted}'"
    ) == str(caught.value)


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        ("import mastra_acme.nothing", "ModuleNotFoundError"),
        ("Other = 1", "AttributeError"),
        ("def Store(settings, context): raise SystemExit(4)", "SystemExit: 4"),
        ("def Store(settings): ...", "TypeError"),
    ],
)
async def test_broken_factory_is_the_plugin_s_fault(
    store: str, reason: str, site: Any, make_manager: MakeManager
) -> None:
    """The original exception is the cause."""
    site.add("mastra-acme", plugin=PLUGIN.format(extra=None), store=store)

    with pytest.raises(PluginBrokenError, match=reason) as caught:
        async with open_storage("acme:x", make_manager()):
            pass

    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("error", ["OSError('refused')", "StorageError('refused')"])
async def test_failure_to_open_passes_unchanged(
    error: str, site: Any, make_manager: MakeManager
) -> None:
    """It says something about the database, not about the plugin."""
    store = LATE_IMPORT.replace("import no_such_driver.sub", f"raise {error}")
    store = store.replace(
        "    class", "    from mastra_core.errors import StorageError\n\n    class"
    )
    site.add("mastra-acme", plugin=PLUGIN.format(extra=None), store=store)

    with pytest.raises((OSError, StorageError), match="refused"):
        async with open_storage("acme:x", make_manager()):
            pass


async def test_error_inside_the_block_passes_unchanged(manager: PluginManager) -> None:
    """What the user imports there isn't our driver."""
    with pytest.raises(ModuleNotFoundError):
        async with open_storage("acme:x", manager):
            raise ModuleNotFoundError(name="theirs")


# All three ------------------------------------------------------------------------------


async def test_one_url_shares_one_connection(manager: PluginManager) -> None:
    """Closed with the last user."""
    async with open_infrastructure(
        manager, storage="acme:x", pubsub="acme:x", lease="acme:x"
    ) as opened:
        members: list[Any] = [opened.storage, opened.pubsub, opened.lease]
        assert 1 == len({id(item.connection) for item in members})
        assert ["open"] == members[0].connection
    assert ["open", "closed"] == members[0].connection
    assert not opened.is_degraded


async def test_nothing_named_means_in_process(manager: PluginManager) -> None:
    """No warning, as nothing is shared."""
    async with open_infrastructure(manager) as opened:
        for member in (opened.storage, opened.pubsub, opened.lease):
            assert isinstance(member, InProcess)


async def test_lease_comes_from_the_named_pubsub_if_it_leases(manager: PluginManager) -> None:
    """Its own provider first."""
    bus: Any = InProcess(None, AdapterContext())

    async with open_infrastructure(manager, pubsub=bus) as opened:
        assert bus is opened.lease


@pytest.mark.parametrize(
    ("storage", "pubsub"), [("acme:x", None), (None, "acme:x"), ("acme:x", "acme:y")]
)
async def test_lease_comes_from_the_scheme_of_pubsub_or_storage(
    storage: str | None, pubsub: str | None, manager: PluginManager
) -> None:
    """The bus that nobody named doesn't count, so a database alone is enough."""
    async with open_infrastructure(manager, storage=storage, pubsub=pubsub) as opened:
        lease: Any = opened.lease
        assert Opened is type(lease)
        assert (pubsub or storage) == lease.settings.url


async def test_options_of_another_role_dont_disturb_a_chosen_lease(
    make_manager: MakeManager, settings_module: str
) -> None:
    """The lease adapter may know fewer of them, and nobody gave them to it."""

    class Few(Adapters):
        @hookimpl
        def mastra_lease_adapters(self) -> list[LeaseSpec]:
            return [LeaseSpec(name="acme", schemes=("acme",), factory=make_opened)]

    url = "acme:x?mastra_pool_size=2"
    manager = make_manager(Few(settings_module))

    async with open_infrastructure(manager, storage=url) as opened:
        assert isinstance(opened.lease, Opened)
    with pytest.raises(UnknownSettingError):
        async with open_lease(url, manager):
            pass


async def test_shared_store_with_in_process_lease_warns_once(make_manager: MakeManager) -> None:
    """Two processes may run one thread at a time, so it must be said."""
    manager = make_manager(Adapters(lease=False))

    with pytest.warns(DegradedWarning, match="storage 'acme'") as caught:
        opened = await opened_and_closed(manager, storage="acme:x")

    assert 1 == len(caught)
    assert opened.is_degraded
    assert isinstance(opened.lease, InProcess)


async def opened_and_closed(manager: PluginManager, *, storage: str) -> Infrastructure:
    async with open_infrastructure(manager, storage=storage) as opened:
        return opened


async def test_whoever_names_an_in_process_lease_is_not_warned(make_manager: MakeManager) -> None:
    """They said that no other process is there."""
    manager = make_manager(Adapters(lease=False))

    async with open_infrastructure(manager, storage="acme:x", lease="memory:") as opened:
        assert opened.is_degraded


async def test_volatile_store_doesnt_need_a_shared_lease(make_manager: MakeManager) -> None:
    """Nobody else can see it."""
    async with open_infrastructure(make_manager(Adapters()), storage="memory:x") as opened:
        assert isinstance(opened.lease, InProcess)
        assert not opened.is_degraded


async def test_named_lease_wins(manager: PluginManager) -> None:
    """Even over the provider of the bus."""
    bus: Any = InProcess(None, AdapterContext())
    options: Any = {"lease": {"pool_size": 7}}

    async with open_infrastructure(manager, pubsub=bus, lease="acme:z", options=options) as opened:
        lease: Any = opened.lease
        assert ("acme:z", 7) == (lease.settings.url, lease.settings.pool_size)


async def test_conflict_over_a_chosen_lease_is_raised(
    manager: PluginManager, make_manager: MakeManager
) -> None:
    """Nobody wins silently, also where nobody asked by name."""

    class More:
        @hookimpl
        def mastra_lease_adapters(self) -> list[LeaseSpec]:
            return [LeaseSpec(name="more", schemes=("acme",), factory=make_opened)]

    with pytest.raises(PluginConflictError):
        async with open_infrastructure(make_manager(Adapters(), More()), storage="acme:x"):
            pass


async def test_first_role_is_closed_if_a_later_one_fails(manager: PluginManager) -> None:
    """No half-open rest."""
    context = AdapterContext()

    with pytest.raises(ConfigError):
        async with open_infrastructure(
            manager, storage="acme:x", pubsub="acme:x?mastra_no=1", context=context
        ):
            pass

    assert 0 == len(context.resources)


# Sharing --------------------------------------------------------------------------------


async def test_users_at_the_same_time_wait_for_one_opening() -> None:
    """The second one doesn't open again."""
    context = AdapterContext()
    everybody_is_in = asyncio.Barrier(3)
    openings = 0

    @asynccontextmanager
    async def slow() -> AsyncIterator[object]:
        nonlocal openings
        openings += 1
        await asyncio.sleep(0)
        yield object()

    async def use() -> int:
        async with context.share("k", slow) as resource:
            await everybody_is_in.wait()
            return id(resource)

    async with asyncio.TaskGroup() as group:
        users = [group.create_task(use()) for _ in range(3)]

    assert 1 == openings
    assert 1 == len({user.result() for user in users})
    assert 0 == len(context.resources)


async def test_failed_opening_is_tried_anew_by_the_next_user() -> None:
    """Everybody gets an own error or an own chance."""
    context = AdapterContext()
    attempts = 0

    @asynccontextmanager
    async def flaky() -> AsyncIterator[str]:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise OSError("refused")
        yield "open"

    async def use() -> str:
        async with context.share("k", flaky) as resource:
            return resource

    results = await asyncio.gather(use(), use(), return_exceptions=True)

    assert ["OSError", "str"] == [type(item).__name__ for item in results]
    assert 0 == len(context.resources)


async def test_resource_is_closed_although_its_last_user_is_cancelled() -> None:
    """Clean-up goes to its end."""
    context = AdapterContext()
    events: list[str] = []
    inside, closing, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def resource() -> AsyncIterator[None]:
        yield
        closing.set()
        await go_on.wait()
        events.append("closed")

    async def use() -> None:
        async with context.share("k", resource):
            inside.set()

    user = asyncio.create_task(use())
    await closing.wait()
    user.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await user

    assert inside.is_set()
    assert ["closed"] == events


async def test_contexts_share_only_with_themselves() -> None:
    """No state outside of the context."""
    async with (
        AdapterContext().share("acme", connect) as first,
        AdapterContext().share("acme", connect) as second,
    ):
        assert first is not second
