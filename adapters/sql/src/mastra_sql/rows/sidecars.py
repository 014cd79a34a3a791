"""Rows of ``mastra_py_notification_claims`` as sidecars and back."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mastra_core.rules.notification_claims import Sidecar
from mastra_sql.dialect import SqlDialect
from mastra_sql.executor import Row

__all__ = ("SidecarCodec",)


class SidecarCodec:
    """Converts between rows, in the order of the table, and sidecars."""

    def __init__(self, dialect: SqlDialect) -> None:
        self._dialect = dialect

    def sidecar(self, row: Row) -> Sidecar | None:
        """The sidecar of a row that was joined to its record; None if there is none."""
        if row[0] is None:
            return None
        time = self._time
        (
            _thread_id,
            _notification_id,
            token,
            generation,
            owner,
            expires_at,
            full_due,
            summary_due,
            original_deliver_at,
            original_summary_at,
            claimed_count,
            guard_at,
            merged_guard_at,
            accepted_signal_id,
            accepted_at,
        ) = row
        return Sidecar(
            token=token,
            generation=generation,
            owner=owner,
            expires_at=time(expires_at),
            full_due=bool(full_due),
            summary_due=bool(summary_due),
            original_deliver_at=time(original_deliver_at),
            original_summary_at=time(original_summary_at),
            claimed_count=claimed_count,
            guard_at=time(guard_at),
            merged_guard_at=time(merged_guard_at),
            accepted_signal_id=accepted_signal_id,
            accepted_at=time(accepted_at),
        )

    def values(self, thread_id: str, notification_id: str, sidecar: Sidecar) -> dict[str, Any]:
        """Parameters of all columns."""
        value = self._value
        return {
            "threadId": thread_id,
            "notificationId": notification_id,
            "token": sidecar.token,
            "generation": sidecar.generation,
            "owner": sidecar.owner,
            "expiresAt": value(sidecar.expires_at),
            "fullDue": int(sidecar.full_due),
            "summaryDue": int(sidecar.summary_due),
            "originalDeliverAt": value(sidecar.original_deliver_at),
            "originalSummaryAt": value(sidecar.original_summary_at),
            "claimedCount": sidecar.claimed_count,
            "guardAt": value(sidecar.guard_at),
            "mergedGuardAt": value(sidecar.merged_guard_at),
            "acceptedSignalId": sidecar.accepted_signal_id,
            "acceptedAt": value(sidecar.accepted_at),
        }

    def _time(self, value: Any) -> datetime | None:
        return None if value is None else self._dialect.time_from(value)

    def _value(self, moment: datetime | None) -> Any:
        return None if moment is None else self._dialect.time_value(moment)
