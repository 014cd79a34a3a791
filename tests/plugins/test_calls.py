"""Call policies: what the failure of one implementation means for the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mastra_core.errors import PluginBrokenError, PluginError, PluginWarning
from mastra_core.plugins import CliCommand, Placed, Registry, hookimpl, hookspec
from mastra_core.plugins.manager import PluginManager

pytestmark = pytest.mark.anyio

MakeManager = Callable[..., PluginManager]


class Item:
    def __init__(self, id: str = "item") -> None:
        self.id = id


class Agent:
    id = "agent"
    name = "Agent"


class Run:
    run_id = "run"


VIOLATION: dict[str, Any] = {"processor": Item(), "violation": {}, "run": Run()}
FINALIZE: dict[str, Any] = {
    "phase": "input",
    "processors": [],
    "agent": Agent(),
    "request_context": {},
}
PLACING: dict[str, Any] = {"agent": Agent(), "request_context": {}, "configured": []}
PEER: dict[str, Any] = {"event": {}, "claim": {}}


class Deciding:
    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.calls = 0

    @hookimpl
    def mastra_finalize_processors(self) -> object:
        self.calls += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class First(Deciding):
    @hookimpl(tryfirst=True)
    def mastra_finalize_processors(self) -> object:
        return super().mastra_finalize_processors()


class Last(Deciding):
    @hookimpl(trylast=True)
    def mastra_finalize_processors(self) -> object:
        return super().mastra_finalize_processors()


class Permitting:
    def __init__(self, answer: object) -> None:
        self.answer = answer

    @hookimpl
    async def mastra_authorize_peer(self) -> object:
        if isinstance(self.answer, BaseException):
            raise self.answer
        if isinstance(self.answer, asyncio.Event):
            await self.answer.wait()
        return self.answer


# collect --------------------------------------------------------------------------------


def test_collect_is_in_the_order_of_the_plugins(make_manager: MakeManager) -> None:
    """Slot, then order, then the order in which they were handed in."""

    class Placing:
        def __init__(self, *placed: tuple[str, str, int]) -> None:
            self.placed = placed

        @hookimpl
        def mastra_output_processors(self, agent: Agent) -> Iterator[Placed]:
            for name, slot, order in self.placed:
                yield Placed(processor=Item(f"{agent.id}:{name}"), slot=slot, order=order)

    manager = make_manager(
        Placing(("a", "user", 1), ("b", "memory", 0)), Placing(("c", "user", -1), ("d", "user", 1))
    )

    placed = Registry(manager).placed("output", **PLACING)

    assert ["agent:c", "agent:a", "agent:d", "agent:b"] == [item.processor.id for item in placed]


def test_a_slot_of_another_list_is_refused(make_manager: MakeManager) -> None:
    """The output list has no browser."""

    class Placing:
        @hookimpl
        def mastra_output_processors(self) -> list[Placed]:
            return [Placed(processor=Item(), slot="browser")]

    with pytest.raises(Exception, match="is not one of the output slots: user, channel"):
        Registry(make_manager(Placing())).placed("output", **PLACING)


def test_collect_with_arguments_puts_a_failing_plugin_aside(
    site: Any, make_manager: MakeManager
) -> None:
    """Nothing of its hook is kept, and it isn't called again."""
    site.add(
        "mastra-bad",
        plugin="""
            from mastra_core.plugins import Placed, hookimpl
            MASTRA_PLUGIN_API = (1, 0)

            class Item:
                id = "bad"

            @hookimpl
            def mastra_input_processors(agent):
                yield Placed(processor=Item())
                raise ValueError("no")
        """,
    )

    class Placing:
        @hookimpl
        def mastra_input_processors(self) -> list[Placed]:
            return [Placed(processor=Item("good"))]

    registry = Registry(make_manager(Placing()))

    with pytest.warns(PluginWarning, match="ValueError: no") as caught:
        first = registry.placed("input", **PLACING)
    second = registry.placed("input", **PLACING)

    assert [["good"], ["good"]] == [[i.processor.id for i in found] for found in (first, second)]
    assert 1 == len(caught)


def test_collect_raises_for_a_plugin_that_was_handed_in(make_manager: MakeManager) -> None:
    """The user relies on it."""

    class Failing:
        @hookimpl
        def mastra_cli_commands(self) -> None:
            raise LookupError("nothing")

    with pytest.raises(PluginBrokenError, match="Plugin 'Failing' could not be loaded"):
        Registry(make_manager(Failing())).cli_commands()


def test_a_hook_that_returns_none_offers_nothing(make_manager: MakeManager) -> None:
    """A conditional offer may just return."""

    class Empty:
        @hookimpl
        def mastra_cli_commands(self) -> None:
            return None

    assert () == Registry(make_manager(Empty())).cli_commands()


def test_a_hook_is_consumed_once(make_manager: MakeManager) -> None:
    """What it says is kept for the life of the manager."""

    class Counting:
        calls = 0

        @hookimpl
        def mastra_doctor_checks(self) -> Iterator[object]:
            self.calls += 1
            return iter(())

    plugin = Counting()
    registry = Registry(make_manager(plugin))
    registry.doctor_checks()
    registry.doctor_checks()

    assert 1 == plugin.calls


# decide ---------------------------------------------------------------------------------


def test_first_answer_wins_and_later_ones_arent_asked(make_manager: MakeManager) -> None:
    """``tryfirst`` before the rest, ``trylast`` after it, else as handed in."""
    last, normal, second, first = Last(["l"]), Deciding(["n"]), Deciding(["s"]), First(None)
    manager = make_manager(last, normal, second, first)

    assert ["n"] == manager.decide("mastra_finalize_processors", **FINALIZE)
    assert [0, 1, 0, 1] == [last.calls, normal.calls, second.calls, first.calls]


@pytest.mark.parametrize("failure", [ValueError("no"), SystemExit(2)])
def test_failing_decision_is_skipped_and_logged_once(
    failure: BaseException, make_manager: MakeManager, caplog: pytest.LogCaptureFixture
) -> None:
    """The plugin stays, as the next question may be one that it can answer."""
    manager = make_manager(Deciding(failure), Deciding(["b"]))

    answers = [manager.decide("mastra_finalize_processors", **FINALIZE) for _ in range(3)]

    assert [["b"]] * 3 == answers
    warned = [item for item in caplog.records if item.levelno == logging.WARNING]
    assert ["deciding hook failed and was skipped"] == [item.message for item in warned]


def test_nobody_decides(make_manager: MakeManager) -> None:
    """None is the answer of nobody."""
    assert make_manager().decide("mastra_finalize_processors", **FINALIZE) is None


# observe --------------------------------------------------------------------------------


class Observing:
    def __init__(self, failures: int) -> None:
        self.calls = 0
        self.failures = failures

    @hookimpl
    def mastra_processor_violation(self) -> None:
        self.calls += 1
        if self.calls <= self.failures:
            raise SystemExit(1) if self.calls % 2 else ValueError("no")


def observe(manager: PluginManager, *, times: int) -> None:
    for _ in range(times):
        manager.observe("mastra_processor_violation", **VIOLATION)


def test_observer_is_off_after_ten_failures_in_a_row(make_manager: MakeManager) -> None:
    """One warning; the others are still told."""
    failing, healthy = Observing(99), Observing(0)
    manager = make_manager(failing, healthy)

    with pytest.warns(PluginWarning, match="failed 10 times in a row") as caught:
        observe(manager, times=15)

    assert [10, 15, 1] == [failing.calls, healthy.calls, len(caught)]


def test_a_success_resets_the_count(make_manager: MakeManager) -> None:
    """Only consecutive failures count."""
    plugin = Observing(9)
    manager = make_manager(plugin)

    observe(manager, times=30)

    assert 30 == plugin.calls


# permit ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([], True),
        ([None], True),
        ([True, None], True),
        ([True, False], False),
        ([0], False),
        (["yes"], False),
        ([True, ValueError("no")], False),
        ([SystemExit(0), True], False),
        ([asyncio.CancelledError(), True], False),
    ],
)
async def test_permit_needs_everybody(
    answers: list[object], expected: bool, make_manager: MakeManager
) -> None:
    """True or None from all; whatever else is no."""
    manager = make_manager(*(Permitting(answer) for answer in answers))

    assert expected is await manager.permit("mastra_authorize_peer", **PEER)


async def test_permit_may_answer_at_once(make_manager: MakeManager) -> None:
    """A plain function is as good."""

    class Plain:
        @hookimpl
        def mastra_authorize_peer(self, claim: dict[str, Any]) -> bool:
            return bool(claim)

    manager = make_manager(Plain())

    assert not await manager.permit("mastra_authorize_peer", event={}, claim={})
    assert await manager.permit("mastra_authorize_peer", event={}, claim={"a": 1})


async def test_permit_that_is_late_is_no(make_manager: MakeManager) -> None:
    """Fail closed, within the deadline."""
    manager = make_manager(Permitting(asyncio.Event()), permit_deadline=0.01)

    assert not await manager.permit("mastra_authorize_peer", **PEER)


async def test_permit_hook_of_a_plugin_put_aside_refuses(
    site: Any, make_manager: MakeManager, caplog: pytest.LogCaptureFixture
) -> None:
    """A guard that broke elsewhere must not open the door."""
    site.add(
        "mastra-guard",
        plugin="""
            from mastra_core.plugins import hookimpl
            MASTRA_PLUGIN_API = (1, 0)

            @hookimpl
            def mastra_authorize_peer():
                return True

            @hookimpl
            def mastra_cli_commands():
                raise ValueError("no")
        """,
    )
    manager = make_manager()
    assert await manager.permit("mastra_authorize_peer", **PEER)

    with pytest.warns(PluginWarning):
        Registry(manager).cli_commands()

    assert not await manager.permit("mastra_authorize_peer", **PEER)
    assert "authorisation hook of a broken plugin refused" in caplog.messages


# gather ---------------------------------------------------------------------------------


class Living:
    def __init__(self, log: list[str], name: str, failure: BaseException | None = None) -> None:
        self.log, self.name, self.failure = log, name, failure

    @hookimpl
    async def mastra_startup(self, mastra: object) -> None:
        self.log.append(f"start {self.name}")
        if self.failure is not None:
            raise self.failure

    @hookimpl
    def mastra_shutdown(self, mastra: object) -> None:
        self.log.append(f"stop {self.name}")
        if self.name == "bad stop":
            raise ValueError("no")


async def test_plugins_start_together_and_stop_in_reverse(
    make_manager: MakeManager, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure to stop is logged and keeps nobody from stopping."""
    log: list[str] = []
    manager = make_manager(Living(log, "a"), Living(log, "bad stop"), Living(log, "c"))

    await manager.startup("app")
    await manager.shutdown("app")
    await manager.shutdown("app")

    assert ["start a", "start bad stop", "start c"] == log[:3]
    assert ["stop c", "stop bad stop", "stop a"] == log[3:]
    assert ["plugin did not stop cleanly"] == caplog.messages


async def test_start_failure_of_a_named_plugin_is_raised_and_the_rest_can_stop(
    make_manager: MakeManager,
) -> None:
    """Only those that did start are stopped."""
    log: list[str] = []
    manager = make_manager(Living(log, "good"), Living(log, "bad", SystemExit(1)))

    with pytest.raises(PluginBrokenError, match="SystemExit: 1"):
        await manager.startup("app")
    await manager.shutdown("app")

    assert ["start good", "start bad", "stop good"] == log


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise ValueError('no')", "ValueError: no"),
        ("await asyncio.Event().wait()", "TimeoutError: not done within 0.01 seconds"),
        ("raise TimeoutError('mine')", "TimeoutError: mine"),
        ("raise asyncio.CancelledError", "CancelledError"),
    ],
)
async def test_start_failure_of_a_found_plugin_puts_it_aside(
    body: str, reason: str, site: Any, make_manager: MakeManager
) -> None:
    """Raising, hanging, or pretending to be cancelled."""
    site.add(
        "mastra-bad",
        plugin=f"""
            import asyncio
            from mastra_core.plugins import hookimpl
            MASTRA_PLUGIN_API = (1, 0)

            @hookimpl
            async def mastra_startup(mastra):
                {body}
        """,
    )
    log: list[str] = []
    manager = make_manager(Living(log, "good"), start_deadline=0.01)

    with pytest.warns(PluginWarning):
        await manager.startup("app")

    assert {"Living": "active", "bad": "broken"} == {i.name: i.status for i in manager.status()}
    assert reason == next(item.reason for item in manager.status() if item.name == "bad")
    assert ["start good"] == log


async def test_strict_start_finds_what_would_break_later(
    site: Any, make_manager: MakeManager
) -> None:
    """A hook that nobody has called yet is called, so that CI sees it."""
    site.add(
        "mastra-bad",
        plugin="""
            from mastra_core.plugins import hookimpl
            MASTRA_PLUGIN_API = (1, 0)

            @hookimpl
            def mastra_doctor_checks():
                raise ValueError("no")
        """,
    )

    await make_manager().startup("app")
    with pytest.raises(PluginBrokenError, match="ValueError: no"):
        await make_manager(strict=True).startup("app")


# around one call of a processor ---------------------------------------------------------


class Around:
    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    @hookimpl
    @asynccontextmanager
    async def mastra_processor_call(self, phase: str) -> AsyncIterator[None]:
        self.log.append(f"{self.name} in {phase}")
        try:
            yield
        finally:
            self.log.append(f"{self.name} out")


class Wrapping:
    def __init__(self, log: list[str], *, yields: int = 1) -> None:
        self.log, self.yields = log, yields

    @hookimpl(wrapper=True)
    def mastra_processor_call(self, processor: Item) -> Iterator[None]:
        self.log.append(f"wrap {processor.id}")
        try:
            for _ in range(self.yields):
                yield
        except LookupError as error:
            self.log.append(f"saw {error!r}")
        self.log.append("unwrap")


class Transparent:
    @hookimpl(wrapper=True)
    def mastra_processor_call(self) -> Iterator[None]:
        yield


class Wrong:
    @hookimpl
    def mastra_processor_call(self) -> object:
        return 7


class Nothing:
    @hookimpl
    def mastra_processor_call(self) -> None:
        return None


async def test_calls_are_surrounded_in_order(make_manager: MakeManager) -> None:
    """Entered as handed in, left in reverse; a wrapper is welcome here."""
    log: list[str] = []
    manager = make_manager(Around(log, "a"), Wrapping(log), Nothing(), Around(log, "b"))

    async with manager.processor_call(Item(), "process_input", Run()):
        log.append("call")

    assert [
        "a in process_input",
        "wrap item",
        "b in process_input",
        "call",
        "b out",
        "unwrap",
        "a out",
    ] == log


async def test_the_exception_of_the_call_passes_whatever_plugins_do(
    make_manager: MakeManager,
) -> None:
    """Even if a wrapper swallows it."""
    log: list[str] = []
    manager = make_manager(Around(log, "a"), Wrapping(log), Transparent(), observer_failures=1)

    with pytest.raises(LookupError, match="gone"):
        async with manager.processor_call(Item(), "process_input", Run()):
            raise LookupError("gone")

    assert ["saw LookupError('gone')", "unwrap", "a out"] == log[2:]


@pytest.mark.parametrize("wrong", [Wrong(), Wrapping([], yields=2), Wrapping([], yields=0)])
async def test_wrong_surroundings_are_counted_and_do_no_harm(
    wrong: object, make_manager: MakeManager
) -> None:
    """As for all observers."""
    manager = make_manager(wrong, observer_failures=2)
    calls: list[str] = []

    with pytest.warns(PluginWarning, match="failed 2 times in a row"):
        await call_processor(manager, calls, times=4)

    assert ["call"] * 4 == calls


async def call_processor(manager: PluginManager, calls: list[str], *, times: int) -> None:
    for _ in range(times):
        async with manager.processor_call(Item(), "process_input", Run()):
            calls.append("call")


def test_definitions_can_be_added_by_the_host(make_manager: MakeManager) -> None:
    """For a room or test that defines hooks itself."""

    class Definitions:
        @hookspec(policy="decide")
        def zoo_animal(self, size: int) -> object: ...

    manager = make_manager()
    manager.add_hookspecs(Definitions)

    assert manager.decide("zoo_animal", size=3) is None


def test_collecting_without_arguments_asks_everybody(make_manager: MakeManager) -> None:
    """The same answer as a look-up in the registry."""

    class Commands:
        @hookimpl
        def mastra_cli_commands(self) -> list[CliCommand]:
            return [CliCommand(name="look", help="Look.", factory=print)]

    manager = make_manager(Commands())

    assert ["look"] == [i.name for i in manager.collect("mastra_cli_commands", CliCommand)]


# all ------------------------------------------------------------------------------------


def test_a_hook_is_called_by_its_own_policy_only(make_manager: MakeManager) -> None:
    """A typo or a wrong call is an error of the caller."""
    manager = make_manager()

    with pytest.raises(PluginError, match="no hook 'mastra_startup' of the kind 'observe'"):
        manager.observe("mastra_startup", mastra=None)
    with pytest.raises(PluginError, match="no hook 'mastra_fly'"):
        manager.decide("mastra_fly")


def test_tracing_logs_every_call(
    make_manager: MakeManager, caplog: pytest.LogCaptureFixture
) -> None:
    """MASTRA_PLUGINS_TRACE=1."""
    caplog.set_level(logging.INFO)
    manager = make_manager(Observing(0), trace=True)

    manager.observe("mastra_processor_violation", **VIOLATION)

    (record,) = caplog.records
    assert ("hook called", "mastra_processor_violation", "Observing") == (
        record.message,
        record.__dict__["hook"],
        record.__dict__["plugin"],
    )


def test_an_implementation_may_be_marked_in_any_way(make_manager: MakeManager) -> None:
    """Under another name, or as a static method."""

    class Marked:
        @staticmethod
        @hookimpl(specname="mastra_create_processor")
        def make_it(processor_id: str) -> str:
            return processor_id.upper()

    made = make_manager(Marked()).decide(
        "mastra_create_processor", processor_id="x", options={}, context=None
    )

    assert "X" == made
