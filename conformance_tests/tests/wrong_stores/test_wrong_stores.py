"""Stores that are wrong on purpose are caught, each by the test that is there for it."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

from mastra_conformance.suites.storage.background_tasks import BackgroundTaskSuite
from mastra_conformance.suites.storage.guarded_writes import GuardedCrowdSuite, GuardedWriteSuite
from mastra_conformance.suites.storage.memory_messages import MessageSuite
from mastra_conformance.suites.storage.memory_threads import ThreadSuite
from mastra_conformance.suites.storage.notification_claims import ClaimCrowdSuite, ClaimSuite
from mastra_conformance.suites.storage.notifications import (
    NotificationCrowdSuite,
    NotificationSuite,
)
from mastra_conformance.suites.storage.resume_claims import ResumeClaimSuite, ResumeCrowdSuite
from mastra_conformance.suites.storage.schedules import ScheduleSuite
from mastra_conformance.suites.storage.suspended_runs import SuspendedRunSuite
from mastra_conformance.suites.storage.thread_state import ThreadStateSuite
from mastra_conformance.suites.storage.values import ODD_TEXTS
from mastra_conformance.suites.storage.workflows import SnapshotCrowdSuite, SnapshotSuite

sys.path.insert(0, str(Path(__file__).parent))
import store_faults as faults

__all__ = ()

pytestmark = pytest.mark.anyio

CAUGHT: list[tuple[str, type, type, str, dict[str, Any]]] = [
    ("memory", faults.SharesMutableState, ThreadSuite,
     "test_what_callers_change_afterwards_changes_nothing_stored", {}),
    ("memory", faults.OverwritesOnCreate, ThreadSuite,
     "test_creating_an_existing_thread_returns_the_stored_one", {}),
    ("memory", faults.ReplacesMetadata, ThreadSuite,
     "test_updating_merges_metadata_one_level_deep", {}),
    ("memory", faults.UpdatesFromAStaleCopy, ThreadSuite,
     "test_parallel_updates_lose_no_key", {}),
    ("memory", faults.AcceptsAnyKey, ThreadSuite,
     "test_a_bad_metadata_key_is_refused", {"key": "__proto__"}),
    ("memory", faults.MovesCreationTimes, MessageSuite,
     "test_saving_an_id_again_replaces_the_content_only", {}),
    ("memory", faults.TouchesTheFirstThreadOnly, MessageSuite,
     "test_saving_moves_the_time_of_every_thread_involved", {}),
    ("memory", faults.MovesMessages, MessageSuite, "test_saving_never_moves_a_message", {}),
    ("memory", faults.StoresHalfABatch, MessageSuite,
     "test_a_message_without_a_place_is_refused_with_its_batch", {"member": "thread_id"}),
    ("memory", faults.LosesOrder, MessageSuite, "test_messages_are_listed_oldest_first", {}),
    ("memory", faults.SortsByTimeAlone, MessageSuite,
     "test_pages_show_each_message_once", {"tied": True, "newest_first": False}),
    ("memory", faults.CrossesResources, MessageSuite,
     "test_included_messages_may_cross_threads_but_not_resources", {}),
    ("memory", faults.ForgetsTheWindow, MessageSuite,
     "test_a_window_holds_the_message_that_was_asked_for",
     {"wanted": "m0", "before": 1, "after": 1, "expected": ["m0", "m1"], "tied": True}),
    ("memory", faults.DropsUnknownParts, MessageSuite,
     "test_a_message_of_a_peer_survives_being_saved_again", {}),
    ("memory", faults.IgnoresFences, GuardedWriteSuite,
     "test_an_older_fence_writes_nothing", {"write": "save_messages"}),
    ("memory", faults.ChecksAfterWriting, GuardedWriteSuite,
     "test_an_older_fence_writes_nothing", {"write": "save_messages"}),
    ("memory", faults.GuardsMessagesOnly, GuardedWriteSuite,
     "test_an_older_fence_writes_nothing", {"write": "update_thread"}),
    ("memory", faults.RefusesEqualFences, GuardedWriteSuite,
     "test_equal_and_newer_fences_write", {"write": "save_message"}),
    ("memory", faults.MixesKeys, GuardedWriteSuite,
     "test_keys_know_nothing_of_each_other", {}),
    ("memory", faults.LooksAtNoRaisedFence, GuardedWriteSuite,
     "test_a_raised_fence_keeps_former_owners_out", {}),
    ("memory", faults.IgnoresFences, GuardedCrowdSuite,
     "test_of_owners_at_once_the_newest_is_last", {"rng": random.Random(1)}),
    ("workflows", faults.DropsUnknownMembers, SnapshotSuite,
     "test_a_document_reads_back_equal", {}),
    ("workflows", faults.ErasesTheResource, SnapshotSuite,
     "test_a_resource_survives_a_persist_without_one", {}),
    ("workflows", faults.ReplacesStepResults, SnapshotSuite,
     "test_outputs_of_iterations_are_composed", {}),
    ("workflows", faults.MergesInMemory, SnapshotCrowdSuite,
     "test_fifty_first_updates_keep_all_steps", {}),
    ("workflows", faults.MergesInMemory, SnapshotCrowdSuite,
     "test_fifty_updates_by_two_processes_keep_all_steps", {}),
    ("workflows", faults.ChecksThenWrites, SnapshotCrowdSuite,
     "test_of_twenty_guarded_updates_one_wins", {}),
    ("workflows", faults.LeavesTheUpdateTime, SnapshotSuite,
     "test_a_state_update_merges_the_top_level_and_moves_the_time", {}),
    ("workflows", faults.WritesNullForNan, SnapshotSuite,
     "test_a_number_without_json_form_is_refused_with_its_path", {"number": float("nan")}),
    ("workflows", faults.RoundsIntegers, SnapshotSuite, "test_large_integers_are_exact", {}),
    ("workflows", faults.CutsAtNul, SnapshotSuite,
     "test_odd_texts_round_trip", {"text": ODD_TEXTS["nul"]}),
    ("workflows", faults.PagesWithOneNumber, SnapshotSuite,
     "test_a_page_needs_both_numbers",
     {"page": None, "per_page": 1, "expected": ["run2", "run1", "run0"]}),
    ("workflows", faults.MatchesPatterns, SnapshotSuite, "test_names_are_never_patterns", {}),
    ("workflows", faults.ShowsRunsOfAll, SuspendedRunSuite,
     "test_an_agent_sees_only_its_own_runs", {}),
    ("workflows", faults.ShipsTheConversation, SuspendedRunSuite,
     "test_the_conversation_is_not_shipped", {}),
    ("workflows", faults.SkipsBehindACursor, SuspendedRunSuite,
     "test_a_cursor_neither_skips_nor_repeats", {}),
    ("workflows", faults.ClaimsTwice, ResumeClaimSuite,
     "test_the_second_claimer_is_told_who_was_first", {}),
    ("workflows", faults.ClaimsTwice, ResumeCrowdSuite,
     "test_of_twenty_tasks_one_gets_the_claim", {}),
    ("workflows", faults.NeverFences, ResumeClaimSuite,
     "test_writes_with_a_stale_claim_are_refused", {"standing": "claim2"}),
    ("workflows", faults.ForgetsReceipts, ResumeClaimSuite, "test_receipts_merge_per_call", {}),
    ("notifications", faults.ForgetsToMerge, NotificationSuite,
     "test_the_same_dedupe_key_merges", {}),
    ("notifications", faults.MergesIntoDelivered, NotificationSuite,
     "test_a_record_that_is_not_pending_is_not_merged_into", {"status": "delivered"}),
    ("notifications", faults.MergesIntoDelivered, NotificationCrowdSuite,
     "test_an_event_never_goes_into_a_record_that_stopped_being_pending", {}),
    ("notifications", faults.CountsFromAStaleCopy, NotificationCrowdSuite,
     "test_fifty_parallel_creates_with_one_key_make_one_record", {}),
    ("notifications", faults.LooksThenInserts, NotificationCrowdSuite,
     "test_fifty_parallel_creates_with_one_key_make_one_record", {}),
    ("notifications", faults.IgnoresTheScope, NotificationSuite,
     "test_a_key_of_another_scope_does_not_merge", {"member": "agent_id"}),
    ("notifications", faults.SearchesByPattern, NotificationSuite,
     "test_search_is_literal_and_covers_the_source", {}),
    ("notifications", faults.TakesZeroForAll, NotificationSuite,
     "test_an_empty_list_of_statuses_matches_nothing", {}),
    ("notifications", faults.KnowsNoStatuses, NotificationSuite,
     "test_a_filter_that_matches_nothing_ever_is_refused", {"filters": {"status": "SEEN"}}),
    ("notifications", faults.ListsByCreation, NotificationSuite,
     "test_filters_are_an_intersection_newest_first", {}),
    ("notifications", faults.ClearsTimestamps, NotificationSuite,
     "test_a_status_never_clears_another_timestamp", {}),
    ("notifications", faults.ClearsWhatIsAbsent, NotificationSuite,
     "test_none_clears_a_time_and_absence_leaves_it", {}),
    ("notifications", faults.Downgrades, NotificationSuite,
     "test_marking_never_downgrades_a_seen_record", {}),
    ("notifications", faults.GuardsEverything, NotificationSuite,
     "test_a_guard_is_written_only_where_no_schedule_is", {}),
    ("notifications", faults.BumpsOnClaim, ClaimSuite,
     "test_a_claim_leaves_status_attempts_and_update_time_alone", {}),
    ("notifications", faults.HidesNothing, ClaimSuite,
     "test_a_claimed_record_is_due_for_nobody", {}),
    ("notifications", faults.ClaimsFromAStaleList, ClaimCrowdSuite,
     "test_claimers_get_disjoint_sets_that_cover_everything", {}),
    ("notifications", faults.NewSignalEachTime, ClaimSuite,
     "test_a_lapsed_claim_is_given_anew_with_the_same_signal", {}),
    ("notifications", faults.AcceptsStaleTokens, ClaimSuite,
     "test_a_stale_token_writes_nothing", {}),
    ("notifications", faults.ForgetsTheSchedule, ClaimSuite,
     "test_a_full_delivery_restores_the_schedule", {}),
    ("notifications", faults.LosesNewEvents, ClaimSuite,
     "test_an_event_that_came_during_the_send_is_delivered_next", {}),
    ("notifications", faults.SummarizesHalf, ClaimSuite,
     "test_a_summary_is_finished_for_all_or_none", {}),
    ("notifications", faults.FailsTheSeen, ClaimSuite,
     "test_a_failure_never_changes_a_seen_record", {}),
    ("notifications", faults.OverwritesSchedules, ClaimSuite,
     "test_a_schedule_set_during_the_claim_stays", {}),
    ("notifications", faults.CountsReleases, ClaimSuite,
     "test_a_released_record_is_as_it_was", {}),
    ("thread_state", faults.ComparesLoosely, ThreadStateSuite,
     "test_only_the_expected_value_is_replaced", {}),
    ("thread_state", faults.ComparesThenSets, ThreadStateSuite,
     "test_counting_by_compare_and_set_loses_nothing", {}),
    ("background_tasks", faults.StartsTwice, BackgroundTaskSuite,
     "test_of_many_starters_one_wins", {}),
    ("background_tasks", faults.DeletesWithoutFilter, BackgroundTaskSuite,
     "test_deleting_takes_what_matches", {}),
    ("background_tasks", faults.IncludesTheEnd, BackgroundTaskSuite,
     "test_date_bounds_include_the_start_and_exclude_the_end", {}),
    ("schedules", faults.FiresTwice, ScheduleSuite,
     "test_of_many_schedulers_one_claims_the_fire", {}),
    ("schedules", faults.FiresWhilePaused, ScheduleSuite,
     "test_active_timers_are_due_from_their_time_on", {}),
    ("schedules", faults.KeepsHistory, ScheduleSuite,
     "test_deleting_a_timer_deletes_its_history", {}),
]  # fmt: skip


def names(row: tuple[str, type, type, str, dict[str, Any]]) -> str:
    return f"{row[1].__name__}-{row[3]}"


@pytest.mark.parametrize("row", CAUGHT, ids=names)
async def test_a_wrong_store_is_caught(
    bench: Any, row: tuple[str, type, type, str, dict[str, Any]]
) -> None:
    """The test that is there for the fault passes on the right store and fails on the wrong."""
    domain, fault, suite, test, parameters = row
    await bench().run(suite, test, **parameters)

    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await bench(domain=domain, fault=fault).run(suite, test, **parameters)


def test_every_fault_is_tried() -> None:
    """A fault that no row names proves nothing."""
    tried = {row[1].__name__ for row in CAUGHT}

    assert set(faults.__all__) == tried
