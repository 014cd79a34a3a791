"""The leases of threads: taken, handed on, let go, lost (signals.md 17.5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mastra_core.errors import FencedOutError, LeaseLostError, LeaseUnavailableError, StorageError
from mastra_core.inmemory.lease import InMemoryLease
from mastra_core.plugins import AdapterContext
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.threads.lease_keeper import LeaseKeeper, run_id_from_owner

__all__ = ()

pytestmark = pytest.mark.anyio

KEY = "r\0t"


class Flaky(InMemoryLease):
    """Leases that can't be had for a while."""

    failures = 0

    async def acquire_lease(self, key: str, owner: str, ttl_ms: int, **options: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise LeaseUnavailableError("The line is cut.")
        return await super().acquire_lease(key, owner, ttl_ms, **options)


Lost = list[tuple[str, str, LeaseLostError]]


@pytest.fixture
async def provider(clock: FakeClock) -> AsyncIterator[Flaky]:
    async with Flaky(None, AdapterContext(clock=clock)) as opened:
        yield opened


@pytest.fixture
def lost() -> Lost:
    return []


@pytest.fixture
async def keeper(provider: Flaky, clock: FakeClock, lost: Lost) -> AsyncIterator[LeaseKeeper]:
    kept = LeaseKeeper(
        provider, holder="us", clock=clock, on_lost=lambda *facts: lost.append(facts)
    )
    yield kept
    await kept.aclose()


async def test_runs_hand_the_thread_on(keeper: LeaseKeeper, provider: Flaky) -> None:
    """Between two runs of a process the key is never free, and its fence grows."""
    assert await keeper.take(KEY, "run 1") is None
    first = keeper.held(KEY)
    assert first is not None
    fence = first.fence

    assert await keeper.take(KEY, "run 2") is None
    # The end of the first run comes late: it lets nothing go.
    await keeper.let_go(KEY, "run 1")

    assert await provider.get_lease_owner(KEY) == "run 2"
    held = keeper.held(KEY)
    assert held is not None
    assert held.fence is not None
    assert fence is not None
    assert fence < held.fence
    await keeper.let_go(KEY, "run 2")
    assert await provider.get_lease_owner(KEY) is None
    assert keeper.held(KEY) is None


async def test_what_is_handed_on_is_renewed(
    keeper: LeaseKeeper, provider: Flaky, clock: FakeClock
) -> None:
    """Under its new owner, for as long as it lasts."""
    await keeper.take(KEY, "run 1")
    await keeper.take(KEY, "run 2")

    await clock.advance(120)

    assert await provider.get_lease_owner(KEY) == "run 2"


async def test_who_has_it_is_told(keeper: LeaseKeeper, provider: Flaky) -> None:
    """Being refused is an answer."""
    await provider.acquire_lease(KEY, "theirs", 60_000)

    assert await keeper.take(KEY, "run 1") == "theirs"
    assert await keeper.owner(KEY) == "theirs"
    assert keeper.held(KEY) is None


async def test_a_run_that_others_start_too_is_not_taken_from_them(
    keeper: LeaseKeeper, provider: Flaky, clock: FakeClock, lost: Lost
) -> None:
    """Two processes that found the same turn would lose the thread to each other for ever."""
    theirs: Lost = []
    others = LeaseKeeper(
        provider, holder="them", clock=clock, on_lost=lambda *facts: theirs.append(facts)
    )
    assert await keeper.take(KEY, "promised", is_known=True) is None

    refused = await others.take(KEY, "promised", is_known=True)
    await clock.advance(60)

    assert "promised" == refused
    assert [] == lost + theirs
    assert keeper.had(KEY, "promised")
    held = keeper.held(KEY)
    assert held is not None
    assert await provider.check_lease(KEY, "promised", held.fence or 0)
    await keeper.let_go(KEY, "promised")
    assert await others.take(KEY, "promised", is_known=True) is None
    await others.aclose()


async def test_a_provider_is_asked_three_times(
    keeper: LeaseKeeper, provider: Flaky, clock: FakeClock
) -> None:
    """Then nobody knows whose the thread is, and nothing starts (G2)."""
    provider.failures = 2
    taking = asyncio.ensure_future(keeper.take(KEY, "run 1"))
    await clock.advance(1)
    assert await taking is None

    provider.failures = 3
    refused = asyncio.ensure_future(keeper.take("r\0other", "run 2"))
    await clock.advance(1)
    with pytest.raises(LeaseUnavailableError):
        await refused


async def test_a_lost_lease_is_told_once(
    keeper: LeaseKeeper, provider: Flaky, clock: FakeClock, lost: Lost
) -> None:
    """Another process took the run over: it isn't ours, and letting go harms nobody."""
    await keeper.take(KEY, "run 1")
    await provider.acquire_lease(KEY, "run 1", 60_000, holder="them")

    await clock.advance(20)

    assert [(KEY, "run 1")] == [facts[:2] for facts in lost]
    assert keeper.held(KEY) is None
    await keeper.let_go(KEY, "run 1")
    assert await provider.get_lease_owner(KEY) == "run 1"


async def test_a_lease_that_was_lost_is_not_handed_on(
    keeper: LeaseKeeper, provider: Flaky, lost: Lost
) -> None:
    """The next run asks for the thread as everybody does."""
    await keeper.take(KEY, "run 1")
    await provider.release_lease(KEY, "run 1")
    await provider.acquire_lease(KEY, "theirs", 60_000)

    assert await keeper.take(KEY, "run 2") == "theirs"
    assert keeper.held(KEY) is None


async def test_who_is_cancelled_while_asking_keeps_nothing(
    provider: Flaky, clock: FakeClock
) -> None:
    """The lease may have been granted: it is given back."""
    granted = asyncio.Event()
    plain = provider.acquire_lease

    async def slow(*arguments: Any, **options: Any) -> Any:
        answer = await plain(*arguments, **options)
        granted.set()
        await asyncio.Event().wait()
        return answer

    provider.acquire_lease = slow  # type: ignore[method-assign]
    keeper = LeaseKeeper(provider, holder="us", clock=clock, on_lost=lambda *_: None)
    taking = asyncio.ensure_future(keeper.take(KEY, "run 1"))
    await granted.wait()
    taking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await taking
    assert await provider.get_lease_owner(KEY) is None
    await keeper.aclose()


class Fences:
    """The store's side: remembers what it was told, refuses as often as it should."""

    def __init__(self) -> None:
        self.raised: list[int] = []
        self.error: BaseException | None = None
        self.failures = 0

    async def raise_fence(self, fence: tuple[str, int]) -> None:
        assert fence[0] == KEY
        if self.failures:
            self.failures -= 1
            assert self.error is not None
            raise self.error
        self.raised.append(fence[1])


@pytest.fixture
def fences() -> Fences:
    return Fences()


@pytest.fixture
async def guarding(provider: Flaky, clock: FakeClock, fences: Fences) -> AsyncIterator[LeaseKeeper]:
    kept = LeaseKeeper(
        provider,
        holder="us",
        clock=clock,
        on_lost=lambda *_: None,
        raise_fence=fences.raise_fence,
    )
    yield kept
    await kept.aclose()


async def test_a_term_has_one_fence(guarding: LeaseKeeper, fences: Fences) -> None:
    """It is told when the term begins, and kept when the thread goes from run to run."""
    await guarding.take(KEY, "run 1")
    first = guarding.fence(KEY)
    await guarding.take(KEY, "run 2")

    assert (KEY, fences.raised[0]) == first == guarding.fence(KEY)
    assert 1 == len(fences.raised)
    await guarding.let_go(KEY, "run 2")
    assert (KEY, 0) == guarding.fence(KEY)
    await guarding.take(KEY, "run 3")
    assert [(KEY, fence) for fence in sorted(set(fences.raised))] == [first, guarding.fence(KEY)]


async def test_a_lease_that_was_lost_at_once_is_asked_for_again(
    guarding: LeaseKeeper, provider: Flaky, fences: Fences
) -> None:
    """A newer owner has begun already; if it is gone the thread may be ours still."""
    fences.error = FencedOutError(key=KEY, fence=1, current=2)
    fences.failures = 2

    assert await guarding.take(KEY, "run 1") is None
    assert await provider.get_lease_owner(KEY) == "run 1"
    # What was sent to this run may have been for the term that somebody else ended.
    assert not guarding.had(KEY, "run 1")
    assert await guarding.take(KEY, "run 1b") is None
    assert guarding.had(KEY, "run 1b")

    fences.failures = 3
    await guarding.let_go(KEY, "run 1b")
    with pytest.raises(FencedOutError):
        await guarding.take(KEY, "run 2")
    assert await provider.get_lease_owner(KEY) is None


@pytest.mark.parametrize("error", [StorageError("away"), asyncio.CancelledError()])
async def test_nothing_is_kept_that_isnt_guarded(
    guarding: LeaseKeeper, provider: Flaky, fences: Fences, error: BaseException
) -> None:
    """If former owners can't be kept from writing the thread is free again."""
    fences.error, fences.failures = error, 1

    with pytest.raises(type(error)):
        await guarding.take(KEY, "run 1")

    assert await provider.get_lease_owner(KEY) is None
    assert 0 == len(guarding)


@pytest.mark.parametrize(
    ("owner", "run_id"),
    [
        (None, None),
        ("3f1c", "3f1c"),
        ('mastra-thread-owner:["3f1c","source","nonce"]', "3f1c"),
        ("mastra-thread-owner:[3]", None),
        ("mastra:agent-thread:v2:opaque", None),
    ],
)
def test_the_run_of_an_owner(owner: str | None, run_id: str | None) -> None:
    """As signals.md 19.6 says; of an opaque owner nobody knows."""
    assert run_id_from_owner(owner) == run_id


async def test_how_often_it_is_renewed_can_be_said(clock: FakeClock) -> None:
    """Three times in the time of the lease if nobody does."""
    renewed: list[str] = []

    class Noting(InMemoryLease):
        async def renew_lease(self, key: str, owner: str, ttl_ms: int, **options: Any) -> Any:
            renewed.append(key)
            return await super().renew_lease(key, owner, ttl_ms, **options)

    async with Noting(None, AdapterContext(clock=clock)) as provider:
        for renew_ms, key in ((None, "a"), (1_000, "b")):
            kept = LeaseKeeper(
                provider,
                holder="us",
                clock=clock,
                on_lost=lambda *_: None,
                ttl_ms=15_000,
                renew_ms=renew_ms,
            )
            assert await kept.take(key, "run") is None
            await clock.advance(10.5)
            await kept.aclose()

    assert (2, 10) == (renewed.count("a"), renewed.count("b"))


async def test_a_run_that_another_process_had_meanwhile_gets_a_new_lease(
    keeper: LeaseKeeper, provider: Flaky, clock: FakeClock, lost: Lost
) -> None:
    """Both know the run by one name; whoever takes it again has lost nothing."""
    other = LeaseKeeper(
        provider, holder="them", clock=clock, on_lost=lambda *facts: lost.append(facts)
    )
    assert await keeper.take(KEY, "run 1") is None
    assert await other.take(KEY, "run 1") is None
    theirs = other.fence(KEY)

    assert await keeper.take(KEY, "run 1") is None
    ours = keeper.fence(KEY)
    await other.aclose()

    assert ours is not None
    assert theirs is not None
    assert ours[1] > theirs[1]
    assert await provider.get_lease_owner(KEY) == "run 1"
    assert [] == lost


async def test_a_run_whose_thread_another_run_has_meanwhile_has_lost_it(
    keeper: LeaseKeeper, provider: Flaky, lost: Lost
) -> None:
    assert await keeper.take(KEY, "run 1") is None
    await provider.release_lease(KEY, "run 1", holder="us")
    await provider.acquire_lease(KEY, "run 2", 15_000, holder="them")

    assert "run 2" == await keeper.take(KEY, "run 1")
    assert [(KEY, "run 1")] == [facts[:2] for facts in lost]
    assert keeper.held(KEY) is None
