"""The rows of agent runs: parked, claimed, answered, removed (snapshots.md 9, 10, 12)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from mastra_core.base.clock import Clock
from mastra_core.base.isotime import epoch_ms
from mastra_core.base.tasks import shielded
from mastra_core.contracts.storage import ClaimOutcome, WorkflowsStorage
from mastra_core.errors import FencedOutError, RunNotFoundError, StorageError
from mastra_core.wire.snapshots import (
    DURABLE_INNER_WORKFLOW,
    DURABLE_OUTER_WORKFLOW,
    INNER_WORKFLOW,
    OUTER_WORKFLOW,
    ResumeClaim,
)
from mastra_core.workflows.agent_snapshot import ParkedRun, documents_of, parked_from_documents
from mastra_core.workflows.durable_snapshot import documents_of_durable, parked_from_durable

__all__ = ("CLAIM_TTL_MS", "AgentSnapshots", "HeldClaim")

logger = logging.getLogger(__name__)

#: How long a resume claim lives without a heartbeat (snapshots.md G4).
CLAIM_TTL_MS: Final = 60_000
_ROWS: Final = (OUTER_WORKFLOW, INNER_WORKFLOW)
_DURABLE_ROWS: Final = (DURABLE_OUTER_WORKFLOW, DURABLE_INNER_WORKFLOW)
_DELETE_ATTEMPTS: Final = 3
#: Seconds that giving a claim back may take while the task is cancelled.
_RELEASE_SECONDS: Final = 5.0


class AgentSnapshots:
    """
    The snapshot rows of agent runs in one store.

    Runs of durable agents, which only the TypeScript system begins, have rows of other names
    and another form: :meth:`durable` is where those are.
    """

    def __init__(
        self,
        store: WorkflowsStorage,
        *,
        clock: Clock,
        claim_ttl_ms: int = CLAIM_TTL_MS,
        is_durable: bool = False,
    ) -> None:
        self.store = store
        self.clock = clock
        self.claim_ttl_ms = claim_ttl_ms
        self.is_durable = is_durable
        self._rows = _DURABLE_ROWS if is_durable else _ROWS

    @property
    def outer_name(self) -> str:
        """The workflow name of the outer row, which is claimed for both."""
        return self._rows[0]

    def durable(self) -> AgentSnapshots:
        """The rows of durable agents' runs in the same store."""
        return AgentSnapshots(
            self.store, clock=self.clock, claim_ttl_ms=self.claim_ttl_ms, is_durable=True
        )

    async def read(self, outer: Mapping[str, Any], *, run_id: str, agent_id: str) -> ParkedRun:
        """
        The run behind an outer document, whose owner is checked already.

        Raises:
            RunNotFoundError: It is one of a durable agent and holds too little to go on with.
        """
        inner = await self.load_inner(run_id)
        if not self.is_durable:
            return parked_from_documents(outer, inner, agent_id=agent_id)
        parked = parked_from_durable(outer, inner, agent_id=agent_id)
        if parked is None:
            raise RunNotFoundError(
                f"Run {run_id!r} is one of a durable agent of the TypeScript system, and its "
                "rows don't say here how it goes on. Only that system can resume it.",
                run_id=run_id,
                agent_id=agent_id,
                has_storage=True,
            )
        return parked

    async def park(self, parked: ParkedRun, *, claim_id: str | None = None) -> None:
        """
        Store both documents of a suspended run, or neither.

        Raises:
            StorageError: They can't be stored; the run must fail, not wait for an answer that
                nobody could give.
        """
        now = self.clock.now()
        write = documents_of_durable if self.is_durable else documents_of
        outer, inner = write(parked, now_ms=epoch_ms(now))
        await self.store.persist_workflow_snapshots(
            [
                {
                    "workflow_name": name,
                    "run_id": parked.run_id,
                    "snapshot": document,
                    "resource_id": parked.resource_id,
                    "created_at": parked.started_at,
                    "updated_at": now,
                }
                for name, document in zip(self._rows, (outer, inner), strict=True)
            ],
            claim_id=claim_id,
        )

    async def is_waiting(self, run_id: str) -> bool:
        """Does this run wait for an answer that nobody is giving right now?"""
        outer = await self.load_outer(run_id)
        if outer is None and not self.is_durable:
            return await self.durable().is_waiting(run_id)
        return outer is not None and outer.get("status") == "suspended"

    async def load(self, run_id: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """The outer and the inner document of a run."""
        outer = await self.load_outer(run_id)
        if outer is None:
            return None, None
        return outer, await self.load_inner(run_id)

    async def load_outer(self, run_id: str) -> dict[str, Any] | None:
        """The outer document alone."""
        return await self.store.load_workflow_snapshot(workflow_name=self._rows[0], run_id=run_id)

    async def load_inner(self, run_id: str) -> dict[str, Any] | None:
        """The inner document alone."""
        return await self.store.load_workflow_snapshot(workflow_name=self._rows[1], run_id=run_id)

    async def forget(self, run_id: str, *, claim_id: str | None = None) -> None:
        """Delete both rows of an ended run; a failing store is asked again, then logged."""
        for attempt in range(1, _DELETE_ATTEMPTS + 1):
            try:
                await self.store.delete_workflow_runs(
                    run_id=run_id, workflow_names=self._rows, claim_id=claim_id
                )
            except FencedOutError:
                logger.warning("run was taken over", extra={"run_id": run_id})
                return
            except StorageError:
                if attempt == _DELETE_ATTEMPTS:
                    logger.exception("snapshot rows were left behind", extra={"run_id": run_id})
                    return
                await self.clock.sleep(0.05 * attempt)
            else:
                return

    async def record_receipt(
        self, run_id: str, tool_call_id: str, receipt: Mapping[str, Any], *, claim_id: str | None
    ) -> None:
        """Note that a resumed call started, or how it ended (snapshots.md G4)."""
        await self.store.record_receipt(
            workflow_name=self.outer_name,
            run_id=run_id,
            tool_call_id=tool_call_id,
            receipt=receipt,
            claim_id=claim_id,
        )

    async def recover_expired_claims(self) -> int:
        """Return runs whose resuming process is gone to ``suspended``."""
        return await self.store.recover_expired_claims(workflow_names=(self.outer_name,))

    async def claim(self, run_id: str, claim: ResumeClaim) -> tuple[ClaimOutcome, HeldClaim]:
        """Ask for a claim; whatever interrupts this, no claim is left behind."""
        held = HeldClaim(self, run_id, claim.claim_id)
        try:
            outcome = await self.store.claim_resume(
                workflow_name=self.outer_name, run_id=run_id, claim=claim
            )
        except BaseException:
            # It may have been granted before we stopped listening.
            await held.release_anyway()
            raise
        return outcome, held

    def new_claim(
        self, *, claim_id: str, owner: str, target: list[str] | None, payload: Any, digest: str
    ) -> ResumeClaim:
        """A claim that starts now."""
        now = self.clock.now()
        return ResumeClaim(
            claim_id=claim_id,
            owner=owner,
            target=target,
            payload_hash=digest,
            acquired_at=now,
            expires_at=now + timedelta(milliseconds=self.claim_ttl_ms),
            attempt=1,
            payload=payload,
        )


class HeldClaim:
    """
    A claim that is ours, kept alive while its run goes on.

    A process can be frozen for longer than its claim lives. Therefore :meth:`assert_held` asks
    the store right before anything that can't be taken back: a tool, a model request, a
    message.
    """

    def __init__(self, snapshots: AgentSnapshots, run_id: str, claim_id: str) -> None:
        #: Where the run's rows are.
        self.snapshots = snapshots
        self.run_id = run_id
        self.claim_id = claim_id
        self.is_lost = False
        #: Told when the heartbeat finds the claim lost, while the run does something else.
        self.on_lost: Callable[[FencedOutError], None] | None = None

    async def _extend(self) -> bool:
        if self.is_lost:
            return False
        kept = await self.snapshots.store.extend_resume_claim(
            workflow_name=self.snapshots.outer_name,
            run_id=self.run_id,
            claim_id=self.claim_id,
            ttl_ms=self.snapshots.claim_ttl_ms,
        )
        if not kept:
            self.is_lost = True
            logger.warning("resume claim was lost", extra={"run_id": self.run_id})
        return kept

    def lost_error(self) -> FencedOutError:
        """What a run that was taken over ends with."""
        return FencedOutError(
            f"Run {self.run_id!r} was taken over: another process answers it now.",
            hint="Nothing more is done here; look at the run in the other process.",
            details={"run_id": self.run_id, "claim_id": self.claim_id},
        )

    async def assert_held(self) -> None:
        """
        Make sure, by the store's judgement, that the run is still ours.

        Raises:
            FencedOutError: It isn't; nothing may be done for it any more.
            StorageError: Nobody knows.
        """
        if not await self._extend():
            raise self.lost_error()

    async def keep_alive(self) -> None:
        """Extend it every third of its life until cancelled; stops when it was lost."""
        while True:
            await self.snapshots.clock.sleep(self.snapshots.claim_ttl_ms / 3000)
            try:
                if not await self._extend():
                    break
            except StorageError:
                logger.warning("resume claim not extended", extra={"run_id": self.run_id})
        if self.on_lost is not None:
            self.on_lost(self.lost_error())

    async def release(self) -> bool:
        """Give the run back as it was; False if it is not ours any more."""
        return await self.snapshots.store.release_resume_claim(
            workflow_name=self.snapshots.outer_name, run_id=self.run_id, claim_id=self.claim_id
        )

    async def release_anyway(self) -> None:
        """Give the run back although we are being cancelled or storage failed just now."""
        with suppress(StorageError, TimeoutError):
            await shielded(self.release(), deadline=_RELEASE_SECONDS)
