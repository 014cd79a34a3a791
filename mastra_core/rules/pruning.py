"""Retention: which rows may go, and in which portions (snapshots.md 5.8, notifications.md 3.8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

from mastra_core.contracts.storage.pruning import PruneOptions, PrunePolicy, PruneResult
from mastra_core.errors import StorageArgumentError
from mastra_core.rules.arguments import check_limit

__all__ = (
    "FENCE_AGE_MS",
    "MESSAGES",
    "NOTIFICATIONS",
    "RESOURCES",
    "SNAPSHOTS",
    "SUSPENDED_SNAPSHOTS",
    "TASKS",
    "THREADS",
    "check_policies",
    "cutoff",
    "prune_table",
)

THREADS: Final = "threads"
"""Threads by ``updated_at``, with their messages."""
MESSAGES: Final = "messages"
"""Messages by ``created_at``."""
RESOURCES: Final = "resources"
"""Resources by ``updated_at``."""
SNAPSHOTS: Final = "workflowSnapshot"
"""Snapshots by ``updated_at``, except suspended ones."""
SUSPENDED_SNAPSHOTS: Final = "workflowSnapshot:suspended"
"""Suspended snapshots by ``updated_at``: only for whoever says so (field report R145)."""
NOTIFICATIONS: Final = "notifications"
"""Notifications by ``created_at``, whatever their status."""
TASKS: Final = "backgroundTasks"
"""Terminal tasks by ``completed_at``."""
FENCE_AGE_MS: Final = 7 * 24 * 3_600_000
"""
How long a fence is known after the last write that carried it, whatever the policies (L4).

It keeps out a former owner that stood still between its last look at the lease and a write.
"""


def check_policies(
    policies: Sequence[PrunePolicy], options: PruneOptions | None, known: Collection[str]
) -> PruneOptions:
    """
    The options to work with.

    Raises:
        StorageArgumentError: A policy names a table of another domain or a negative age, or
            a limit is below 1.
    """
    for policy in policies:
        if policy.table not in known:
            raise StorageArgumentError(
                f"No rows can be pruned from {policy.table!r} here; known: {', '.join(known)}."
            )
        if policy.max_age_ms < 0:
            raise StorageArgumentError(f"max_age_ms must not be negative: {policy.max_age_ms!r}.")
    options = options or PruneOptions()
    for name in ("batch_size", "max_batches", "max_rows"):
        check_limit(getattr(options, name), name)
    if options.pause_ms < 0:
        raise StorageArgumentError(f"pause_ms must not be negative: {options.pause_ms!r}.")
    return options


def cutoff(policy: PrunePolicy, now: datetime) -> datetime:
    """Rows strictly older than this may go."""
    return now - timedelta(milliseconds=policy.max_age_ms)


async def prune_table(
    policy: PrunePolicy,
    options: PruneOptions,
    *,
    domain: str,
    count: Callable[[], Awaitable[int]],
    delete: Callable[[int], Awaitable[int]],
    sleep: Callable[[float], Awaitable[None]],
) -> PruneResult:
    """
    Delete batch by batch until nothing is left or a limit is reached.

    Args:
        policy: Which rows.
        options: How much work.
        domain: For the result.
        count: How many rows would go.
        delete: Deletes up to so many of them in one transaction, and returns how many.
        sleep: Waits so many seconds, between batches.
    """
    if options.dry_run:
        return _result(policy, domain, await count(), done=True)
    deleted = batches = 0
    while not (options.abort and options.abort.is_set()) and batches != options.max_batches:
        wanted = options.batch_size
        if options.max_rows is not None:
            wanted = min(wanted, options.max_rows - deleted)
        if wanted == 0:
            break
        gone = await delete(wanted)
        deleted += gone
        batches += 1
        if gone < wanted:
            return _result(policy, domain, deleted, done=True)
        await sleep(options.pause_ms / 1000)
    return _result(policy, domain, deleted, done=False)


def _result(policy: PrunePolicy, domain: str, deleted: int, *, done: bool) -> PruneResult:
    return PruneResult(domain=domain, table=policy.table, deleted=deleted, done=done)
