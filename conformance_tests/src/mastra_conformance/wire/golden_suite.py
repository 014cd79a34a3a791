"""Every recorded scene, replayed on the store under test (golden/README.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from mastra_conformance.cases import case
from mastra_conformance.suite import Suite
from mastra_conformance.wire.differences import judge
from mastra_conformance.wire.player import observed_of, play
from mastra_conformance.wire.scene import load_scene, scene_ids
from mastra_core.contracts.storage import Storage
from mastra_core.testing.logical_clock import LogicalClock

__all__ = ("GoldenSceneSuite",)

#: Cases that a scene alone would show to be broken.
_PROVEN: Final[Mapping[str, tuple[pytest.MarkDecorator, ...]]] = {
    "abort-01-keeps-pending": (case("signals", 66),),
    "abort-05-during-approval": (case("signals", 72),),
    "approval-01-approve": (case("snapshots", 48, 65),),
    "approval-03-decline-reason": (case("streaming", 20),),
    "approval-05-suspend-resume": (case("snapshots", 49), case("streaming", 23)),
    "approval-11-list-filters": (case("snapshots", 58), case("streaming", 62)),
    "approval-16-subagent": (case("snapshots", 54),),
    "approval-20-parked-message": (case("streaming", 18),),
    "background-01-deferred": (case("streaming", 39, 40),),
    "background-02-until-idle": (case("streaming", 48),),
    "notification-06-active-medium": (case("notifications", 58),),
    "notification-08-active-urgent": (case("notifications", 56),),
    "notification-09-dedupe-and-coalesce": (case("notifications", 6, 7, 10, 12, 14, 15),),
    "notification-11-policy-object": (case("notifications", 60),),
    "notification-14-if-idle-persist": (case("notifications", 61),),
    "notification-19-signal-form": (case("notifications", 39, 44, 45, 46, 47, 48, 49, 50, 51, 52),),
    "notification-20-store": (case("notifications", 26, 28),),
    "queue-01-active": (case("signals", 50),),
    "queue-03-idle": (case("signals", 52),),
    "queue-05-count-events": (case("signals", 54, 55),),
    "queue-06-cancel-by-id": (case("signals", 58, 59, 62),),
    "render-04-multipart": (case("signals", 13, 14, 15, 16, 17, 18),),
    "signal-02-message-with-attributes": (case("signals", 20),),
    "signal-04-signal-idle-reactive": (case("signals", 30),),
    "signal-06-active-deliver": (case("signals", 33, 76), case("streaming", 54)),
    "signal-08-active-during-reasoning": (case("signals", 79),),
    "signal-09-active-during-tool": (case("signals", 75),),
    "signal-11-max-steps": (case("signals", 48, 77),),
    "signal-12-if-active-persist": (case("signals", 34),),
    "signal-14-if-idle-persist": (case("signals", 36),),
    "signal-15-if-idle-discard": (case("signals", 37),),
    "signal-18-transient": (case("signals", 27),),
    "signal-19-other-agent-running": (case("signals", 40),),
    "signal-21-own-run-suspended": (case("signals", 42),),
    "signal-22-errors": (case("signals", 57),),
    "signal-25-model-failure": (case("signals", 47),),
    "state-01-external": (case("signals", 103, 104, 105, 113),),
    "state-06-window-without-snapshot": (case("signals", 106, 108), case("processors", 43)),
    "stream-01-text": (case("streaming", 1, 2),),
    "stream-04-tool-input-streamed": (case("streaming", 28),),
    "stream-07-model-throws": (case("streaming", 64),),
    "stream-09-abort": (case("streaming", 24),),
    "stream-10-max-steps": (case("streaming", 8),),
    "stream-13-writer": (case("streaming", 34, 35, 36), case("workflows", 53)),
    "subscribe-01-two-runs": (case("signals", 94),),
    "subscribe-03-hide-signals": (case("signals", 96),),
}


class GoldenSceneSuite(Suite):
    """What the TypeScript system did, point by point, on this store."""

    role = "runtime"
    tier = 3
    capabilities = (
        *("memory", "workflows", "workflows.claim_resume", "workflows.fenced_writes"),
        *("notifications", "notifications.claims", "background_tasks"),
    )

    @pytest.fixture
    def clock(self) -> LogicalClock:
        """Later at every reading, as in the recordings."""
        return LogicalClock()

    @pytest.mark.parametrize(
        "scene_id", [pytest.param(name, marks=_PROVEN.get(name, ())) for name in scene_ids()]
    )
    async def test_a_scene_is_as_recorded(
        self, scene_id: str, store: Storage, clock: LogicalClock
    ) -> None:
        """Every member is equal, save for the differences that a rule asks for."""
        scene = load_scene(scene_id)

        replayed = await play(scene, store, clock=clock)

        assert [] == judge(scene_id, observed_of(scene), replayed).faults
