"""The calls of the refusal tests are right calls: whoever has the capability answers them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mastra_conformance.clock import ShiftedClock
from mastra_conformance.opening import Opener
from mastra_conformance.outcomes import DishonestError
from mastra_conformance.refusals import (
    GUARANTEES,
    LEASE_REFUSALS,
    PUBSUB_REFUSALS,
    STORAGE_REFUSALS,
    Refusal,
    refusals_for,
)
from mastra_conformance.subject import find_subject
from mastra_conformance.suites.refusals import expect_refusal
from mastra_core.base.ids import UuidIds
from mastra_core.contracts.capabilities import (
    LEASE_CAPABILITIES,
    PUBSUB_CAPABILITIES,
    STORAGE_CAPABILITIES,
)

__all__ = ()

pytestmark = pytest.mark.anyio

ALL = (*STORAGE_REFUSALS, *PUBSUB_REFUSALS, *LEASE_REFUSALS)


@pytest.fixture
async def opened(refusal: Refusal) -> AsyncIterator[object]:
    opener = Opener.for_test(
        find_subject("memory:"), nodeid=str(refusal), seed=1, clock=ShiftedClock(), ids=UuidIds()
    )
    openers = {"storage": opener.storage, "pubsub": opener.pubsub, "lease": opener.lease}
    async with openers[refusal.role]() as thing:
        yield thing


def test_every_capability_can_be_refused_or_is_a_guarantee() -> None:
    """A new capability needs a call, or a place among the guarantees."""
    known = {*STORAGE_CAPABILITIES, *PUBSUB_CAPABILITIES, *LEASE_CAPABILITIES}

    asked = {refusal.capability for refusal in ALL}

    assert known == asked | GUARANTEES
    assert not asked & GUARANTEES


@pytest.mark.parametrize("refusal", ALL, ids=str)
async def test_a_capable_adapter_does_not_pass_a_refusal_test(
    opened: object, refusal: Refusal
) -> None:
    """The in-memory reference has everything, so claiming the contrary is dishonest."""
    with pytest.raises(DishonestError) as caught:
        await expect_refusal(opened, refusal)

    assert not isinstance(caught.value.__cause__, TypeError | AttributeError)


def test_what_builds_on_an_undeclared_base_is_not_asked_for() -> None:
    """The refusal of the base stands for all of it."""
    names = {refusal.capability for refusal in refusals_for("storage", frozenset({"thread_state"}))}

    assert "memory" in names
    assert "thread_state.compare_and_set" in names
    assert "memory.copy_thread" not in names
    assert "storage.retention" not in names
    with_memory = refusals_for("storage", frozenset({"memory"}))
    assert {"memory.copy_thread", "storage.retention"} <= {item.capability for item in with_memory}
