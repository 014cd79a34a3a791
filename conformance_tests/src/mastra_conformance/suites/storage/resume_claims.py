"""Who resumes a run: claims, fencing, receipts, recovery (snapshots.md G1, G2, G4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from mastra_conformance.fixtures import OpenStore
from mastra_conformance.processes import Processes
from mastra_conformance.subject import Subject
from mastra_conformance.suite import Suite, requires
from mastra_conformance.suites.storage.crowds import at_once, in_crowd
from mastra_conformance.suites.storage.things import approval_run, resume_claim, snapshot
from mastra_conformance.suites.storage.values import refused_values
from mastra_conformance.suites.storage.workflows import (
    W,
    load,
    persist,
    set_state,
    times,
    update,
)
from mastra_core.contracts.storage import ClaimOutcome, Storage
from mastra_core.errors import FencedOutError, MastraError, StorageArgumentError, WireEncodeError

__all__ = (
    "TTL_MS",
    "Elapse",
    "ResumeClaimSuite",
    "ResumeCrowdSuite",
    "claim",
    "try_claims",
)

Elapse = Callable[[int], Awaitable[None]]

TTL_MS = 400
"""How long claims last that a test lets expire; a server's clock really waits for it."""


async def claim(store: Storage, claim_id: str = "claim1", **members: Any) -> ClaimOutcome:
    """Ask for the claim on ``run1``."""
    return await store.workflows.claim_resume(
        workflow_name=W, run_id="run1", claim=resume_claim(claim_id, **members)
    )


class ResumeClaimSuite(Suite):
    """What a resume claim guards."""

    capabilities = ("workflows", "workflows.claim_resume")

    async def test_a_claim_flips_the_status_and_stands_in_the_document(
        self, store: Storage
    ) -> None:
        """Everything else of the document stays, the answer holds the document as it is now."""
        document = approval_run(schemaVersion=1)
        await persist(store, document=document)
        before = await times(store)

        outcome = await claim(store)

        found = await load(store)
        assert outcome.acquired
        assert outcome.snapshot == found
        assert found["status"] == "running"
        stored = found.pop("resumeClaim")
        assert {**document, "status": "running"} == found
        assert ("claim1", "process-1", ["call_1"], "hash", 1, {"approved": True}) == tuple(
            stored[name]
            for name in ("claimId", "owner", "target", "payloadHash", "attempt", "payload")
        )
        assert (await times(store))[1] > before[1]

    async def test_the_second_claimer_is_told_who_was_first(self, store: Storage) -> None:
        """Losing is an answer, and changes nothing."""
        await persist(store, document=approval_run())
        await claim(store)
        before = (await load(store), await times(store))

        outcome = await claim(store, "claim2")

        assert not outcome
        assert outcome.claim is not None
        assert outcome.claim.claim_id == "claim1"
        assert before == (await load(store), await times(store))

    @pytest.mark.parametrize("status", ["running", "success", "pending", "failed"])
    async def test_only_a_suspended_run_can_be_claimed(self, store: Storage, status: str) -> None:
        """Any other status refuses, without a claim in the answer."""
        await persist(store, document=snapshot(status=status))

        outcome = await claim(store)

        assert (False, None) == (outcome.acquired, outcome.claim)
        assert (await load(store))["status"] == status

    async def test_an_absent_run_cannot_be_claimed(self, store: Storage) -> None:
        """No row is created."""
        outcome = await claim(store)

        assert (False, None, None) == (outcome.acquired, outcome.snapshot, outcome.claim)
        assert (await store.workflows.list_workflow_runs()).total == 0

    async def test_releasing_suspends_the_run_again(self, store: Storage) -> None:
        """As it was, free for the next one; a stranger's id does nothing."""
        document = approval_run()
        await persist(store, document=document)
        await claim(store)
        key = {"workflow_name": W, "run_id": "run1"}

        stranger = await store.workflows.release_resume_claim(**key, claim_id="other")
        released = await store.workflows.release_resume_claim(**key, claim_id="claim1")
        again = await store.workflows.release_resume_claim(**key, claim_id="claim1")

        assert (False, True, False) == (stranger, released, again)
        assert document == await load(store)
        assert await claim(store, "claim2")

    @refused_values()
    async def test_an_answer_without_json_form_is_refused_before_the_claim(
        self, store: Storage, make: Callable[[], Any]
    ) -> None:
        """The run stays suspended and unclaimed."""
        await persist(store, document=approval_run())

        with pytest.raises(WireEncodeError):
            await claim(store, payload={"bad": make()})

        assert approval_run() == await load(store)

    # -- fencing --------------------------------------------------------------------------------

    @requires("workflows.fenced_writes")
    async def test_the_owner_of_the_claim_may_write(self, store: Storage) -> None:
        """Every kind of write with the current claim id goes through."""
        await persist(store, document=approval_run())
        await claim(store)

        await update(store, "s", {"status": "success"}, claim_id="claim1")
        await set_state(store, "running", opts={"n": 1}, claim_id="claim1")
        document = {**await load(store), "m": 1}
        await persist(store, document=document, claim_id="claim1")
        await store.workflows.record_receipt(
            workflow_name=W, run_id="run1", tool_call_id="c", receipt={"a": 1}, claim_id="claim1"
        )
        await store.workflows.persist_workflow_snapshots(
            [
                {"workflow_name": W, "run_id": "run1", "snapshot": await load(store)},
                {"workflow_name": "inner", "run_id": "run1", "snapshot": snapshot()},
            ],
            claim_id="claim1",
        )
        await store.workflows.delete_workflow_runs(
            run_id="run1", workflow_names=[W, "inner"], claim_id="claim1"
        )

        assert (await store.workflows.list_workflow_runs()).total == 0

    @requires("workflows.fenced_writes")
    @pytest.mark.parametrize("standing", ["claim2", None])
    async def test_writes_with_a_stale_claim_are_refused(
        self, store: Storage, standing: str | None
    ) -> None:
        """Another claim stands there, or none: nothing is written by anybody who is late."""
        await persist(store, document=approval_run())
        await persist(store, document=snapshot(), workflow_name="inner")
        if standing is not None:
            await claim(store, standing)
        before = (await load(store), await times(store))
        key: dict[str, Any] = {"workflow_name": W, "run_id": "run1"}
        writes: list[Callable[[], Awaitable[Any]]] = [
            lambda: persist(store, document=snapshot(), claim_id="stale"),
            lambda: update(store, "s", {"status": "success"}, claim_id="stale"),
            lambda: set_state(store, "success", claim_id="stale"),
            lambda: store.workflows.record_receipt(
                **key, tool_call_id="c", receipt={"a": 1}, claim_id="stale"
            ),
            lambda: store.workflows.persist_workflow_snapshots(
                [
                    {**key, "snapshot": snapshot()},
                    {"workflow_name": "inner", "run_id": "run1", "snapshot": snapshot(n=1)},
                ],
                claim_id="stale",
            ),
            lambda: store.workflows.delete_workflow_run_by_id(**key, claim_id="stale"),
            lambda: store.workflows.delete_workflow_runs(
                run_id="run1", workflow_names=[W, "inner"], claim_id="stale"
            ),
        ]

        for write in writes:
            with pytest.raises(FencedOutError) as caught:
                await write()
            assert caught.value.id == "STALE_CLAIM"

        assert before == (await load(store), await times(store))
        assert snapshot() == await load(store, workflow_name="inner")

    @requires("workflows.fenced_writes")
    async def test_a_claimed_write_to_a_missing_row_is_refused(self, store: Storage) -> None:
        """The run ended meanwhile; it must not come back. Deleting it again is no error."""
        with pytest.raises(FencedOutError):
            await persist(store, claim_id="stale")
        with pytest.raises(FencedOutError):
            await update(store, "s", {"status": "success"}, claim_id="stale")

        await store.workflows.delete_workflow_run_by_id(
            run_id="run1", workflow_name=W, claim_id="stale"
        )
        assert (await store.workflows.list_workflow_runs()).total == 0

    # -- receipts -------------------------------------------------------------------------------

    async def test_receipts_merge_per_call(self, store: Storage) -> None:
        """What was started and what was finished stand in one receipt; others are untouched."""
        await persist(store, document=approval_run())

        async def record(call_id: str, receipt: Mapping[str, Any]) -> None:
            await store.workflows.record_receipt(
                workflow_name=W, run_id="run1", tool_call_id=call_id, receipt=receipt
            )

        await record("call_1", {"decision": {"approved": True}, "startedAt": 1})
        await record("call.2 $x", {"startedAt": 2})
        await record("call_1", {"finishedAt": 3, "result": {"ok": True}})

        document = await load(store)
        assert document["resumeReceipts"] == {
            "call_1": {
                "decision": {"approved": True},
                "startedAt": 1,
                "finishedAt": 3,
                "result": {"ok": True},
            },
            "call.2 $x": {"startedAt": 2},
        }
        assert document["status"] == "suspended"

    async def test_a_receipt_of_a_missing_run_raises(self, store: Storage) -> None:
        """A receipt that nobody would find again is no receipt."""
        with pytest.raises(MastraError):
            await store.workflows.record_receipt(
                workflow_name=W, run_id="nowhere", tool_call_id="c", receipt={"a": 1}
            )

        assert (await store.workflows.list_workflow_runs()).total == 0

    # -- expiry ---------------------------------------------------------------------------------

    async def test_an_expired_claim_is_recovered(self, store: Storage, elapse: Elapse) -> None:
        """Suspended again, with a memory of the resume that was lost; once."""
        await persist(store, document=approval_run())
        await claim(store, ttl_ms=TTL_MS)
        early = await store.workflows.recover_expired_claims(workflow_names=[W])
        await elapse(TTL_MS + 50)

        elsewhere = await store.workflows.recover_expired_claims(workflow_names=["other"])
        recovered = await store.workflows.recover_expired_claims(workflow_names=[W])
        again = await store.workflows.recover_expired_claims(workflow_names=[W])

        assert (0, 0, 1, 0) == (early, elsewhere, recovered, again)
        document = await load(store)
        orphan = document.pop("orphanedResume")
        assert approval_run() == document
        assert ("claim1", ["call_1"], "hash", {"approved": True}, 1) == tuple(
            orphan[name] for name in ("claimId", "target", "payloadHash", "payload", "attempt")
        )
        assert isinstance(orphan["at"], str)

    async def test_the_next_attempt_is_counted(self, store: Storage, elapse: Elapse) -> None:
        """A claim after an orphaned one says how often it was tried."""
        await persist(store, document=approval_run())
        await claim(store, ttl_ms=TTL_MS)
        await elapse(TTL_MS + 50)
        await store.workflows.recover_expired_claims(workflow_names=[W])

        outcome = await claim(store, "claim2")

        assert outcome.claim is not None
        assert outcome.claim.attempt == 2

    async def test_extending_keeps_a_claim_alive(self, store: Storage, elapse: Elapse) -> None:
        """As long as it is extended it isn't recovered; a stranger can't extend it."""
        await persist(store, document=approval_run())
        await claim(store, ttl_ms=600)
        key = {"workflow_name": W, "run_id": "run1"}

        for _ in range(5):
            await elapse(200)
            assert await store.workflows.extend_resume_claim(**key, claim_id="claim1", ttl_ms=600)
            assert await store.workflows.recover_expired_claims(workflow_names=[W]) == 0

        assert not await store.workflows.extend_resume_claim(**key, claim_id="x", ttl_ms=600)
        assert not await store.workflows.extend_resume_claim(
            workflow_name=W, run_id="nowhere", claim_id="claim1", ttl_ms=600
        )

    @requires("workflows.fenced_writes")
    async def test_a_claim_that_was_recovered_is_stale(
        self, store: Storage, elapse: Elapse
    ) -> None:
        """Whoever slept past his claim can't write any more."""
        await persist(store, document=approval_run())
        await claim(store, ttl_ms=TTL_MS)
        await elapse(TTL_MS + 50)
        await store.workflows.recover_expired_claims(workflow_names=[W])

        with pytest.raises(FencedOutError):
            await set_state(store, "success", claim_id="claim1")
        assert not await store.workflows.release_resume_claim(
            workflow_name=W, run_id="run1", claim_id="claim1"
        )

    async def test_recovery_takes_at_most_as_many_as_it_is_told(
        self, store: Storage, elapse: Elapse
    ) -> None:
        """The rest is left for the next time."""
        for number in range(3):
            await persist(store, f"run{number}", approval_run(f"run{number}"))
            await store.workflows.claim_resume(
                workflow_name=W,
                run_id=f"run{number}",
                claim=resume_claim(f"c{number}", ttl_ms=TTL_MS),
            )
        await elapse(TTL_MS + 50)

        first = await store.workflows.recover_expired_claims(workflow_names=[W], limit=2)
        second = await store.workflows.recover_expired_claims(workflow_names=[W], limit=2)

        assert (2, 1) == (first, second)
        with pytest.raises(StorageArgumentError):
            await store.workflows.recover_expired_claims(workflow_names=[W], limit=0)


async def try_claims(store: Storage, arguments: Mapping[str, Any]) -> list[str]:
    """One member of a crowd: ask for the claim on each of ten runs."""
    won = []
    for number in range(10):
        outcome = await store.workflows.claim_resume(
            workflow_name=W,
            run_id=f"run{number}",
            claim=resume_claim(f"{arguments['owner']}-{number}"),
        )
        if outcome:
            won.append(f"run{number}")
    return won


class ResumeCrowdSuite(Suite):
    """What many resumers at once get."""

    capabilities = ("workflows", "workflows.claim_resume")
    tier = 2

    async def test_each_run_is_claimed_by_one_process(
        self, store: Storage, subject: Subject, open_store: OpenStore, processes: Processes
    ) -> None:
        """Of three processes exactly one gets each of ten runs (G1)."""
        for number in range(10):
            await persist(store, f"run{number}", approval_run(f"run{number}"))

        won = await in_crowd(
            try_claims,
            [{"owner": f"p{number}"} for number in range(3)],
            subject=subject,
            open_store=open_store,
            processes=processes,
        )

        assert [f"run{number}" for number in range(10)] == sorted(
            name for part in won for name in part
        )

    async def test_of_twenty_tasks_one_gets_the_claim(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """Also within one process, through two handles."""
        await persist(store, document=approval_run())

        async with open_store() as other:
            results = await at_once(
                [
                    claim(handle, f"{name}{number}")
                    for number in range(10)
                    for name, handle in (("a", store), ("b", other))
                ]
            )

        winners = [outcome.claim.claim_id for outcome in results if outcome]
        assert len(winners) == 1
        assert (await load(store))["resumeClaim"]["claimId"] == winners[0]

    async def test_parallel_receipts_lose_nothing(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """Receipts of sibling calls are merged, not overwritten."""
        await persist(store, document=approval_run())

        async with open_store() as other:
            await at_once(
                [
                    (store, other)[number % 2].workflows.record_receipt(
                        workflow_name=W,
                        run_id="run1",
                        tool_call_id=f"c{number}",
                        receipt={"startedAt": number},
                    )
                    for number in range(16)
                ]
            )

        assert {f"c{number}": {"startedAt": number} for number in range(16)} == (await load(store))[
            "resumeReceipts"
        ]
