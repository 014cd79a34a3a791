"""Only what is safe to repeat is repeated, and not for ever."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest

from mastra_core.base.retry import RetryPolicy, retry
from mastra_core.errors import MastraError, StorageConnectionError, StorageDataError

pytestmark = pytest.mark.anyio


class RecordingClock:
    """A clock that only notes how long it should have slept."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Flaky:
    """Fails with these errors, one per call, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


DOWN = StorageConnectionError("The server didn't answer.")
STEADY = RetryPolicy(attempts=3, first_delay_ms=100, factor=3, max_delay_ms=250, jitter=0)


async def test_a_retryable_error_is_tried_again_with_growing_delays() -> None:
    """The delay grows up to its bound."""
    clock, flaky = RecordingClock(), Flaky(DOWN, DOWN)

    result = await retry(flaky, clock=clock, random=Random(1), policy=STEADY)

    assert (result, flaky.calls) == ("done", 3)
    assert clock.slept == [0.1, 0.25]


async def test_the_last_error_passes_as_it_is() -> None:
    """After the last try there is no delay any more."""
    clock, flaky = RecordingClock(), Flaky(DOWN, DOWN, DOWN)

    with pytest.raises(StorageConnectionError) as caught:
        await retry(flaky, clock=clock, random=Random(1), policy=STEADY)

    assert caught.value is DOWN
    assert len(clock.slept) == 2


@pytest.mark.parametrize("error", [StorageDataError("bad row"), ValueError("x"), MastraError("y")])
async def test_other_errors_pass_at_once(error: Exception) -> None:
    """Repeating might do it twice."""
    clock, flaky = RecordingClock(), Flaky(error)

    with pytest.raises(type(error)):
        await retry(flaky, clock=clock, random=Random(1))

    assert (flaky.calls, clock.slept) == (1, [])


def test_jitter_shortens_a_delay_by_at_most_its_share() -> None:
    """Many processes that failed together don't come back together."""
    policy = RetryPolicy(first_delay_ms=1000, jitter=0.5)
    random = Random(7)

    delays = [policy.delay_ms(1, random) for _ in range(200)]

    assert all(500 <= delay <= 1000 for delay in delays)
    assert len(set(delays)) > 100


def test_a_delay_is_bounded_after_any_number_of_failures() -> None:
    """Also where the power would overflow."""
    assert RetryPolicy(jitter=0, max_delay_ms=9).delay_ms(100_000, Random(1)) == 9


@pytest.mark.parametrize(
    "wrong",
    [{"attempts": 0}, {"first_delay_ms": -1}, {"factor": 0.5}, {"jitter": 1.5}, {"jitter": -0.1}],
)
def test_policies_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    """At construction, not at the first failure."""
    with pytest.raises(ValueError, match=r"must be|can't be"):
        RetryPolicy(**wrong)  # type: ignore[arg-type] # one of each type, by name
