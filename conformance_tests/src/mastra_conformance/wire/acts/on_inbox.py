"""Actions on the notification inbox: dispatch, calls of the store, pure functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from mastra_conformance.wire.expressions import UnknownVocabularyError, snake_members
from mastra_conformance.wire.forms import error_form, plain
from mastra_conformance.wire.policies import ScriptedFailureError, policy_from_data
from mastra_conformance.wire.stage import Stage
from mastra_core.base.isotime import parse_iso
from mastra_core.contracts.storage import NotificationsStorage
from mastra_core.errors import MastraError
from mastra_core.messages.signals import model_turn, wire_form
from mastra_core.notifications import (
    create_notification_signal,
    create_notification_summary_signal,
    resolve_delivery_failure_update,
    resolve_notification_delivery_decision,
    summarize_notifications,
)
from mastra_core.wire.notifications import (
    CreateNotification,
    NotificationPatch,
    NotificationRecord,
)
from mastra_core.wire.signals import Signal

__all__ = ("ACTS",)

#: How far after the present a dispatch looks, unless it says otherwise.
_DISPATCH_AHEAD_MS: Final = 60_000
#: When the recorded pure decisions were taken, and what the records there left out.
_DECIDED_AT: Final = "2023-11-14T22:13:20.000Z"
_UNSAID: Final = {
    "id": "n",
    "threadId": "t",
    "source": "s",
    "kind": "k",
    "priority": "medium",
    "status": "pending",
    "summary": "s",
    "createdAt": _DECIDED_AT,
    "updatedAt": _DECIDED_AT,
}


async def _dispatch(stage: Stage, action: Mapping[str, Any]) -> Any:
    now = _ahead(stage, action.get("nowPlusMs", _DISPATCH_AHEAD_MS))
    result = await stage.mastra.dispatch_due_notifications(now=now)
    return {
        "delivered": plain(result.delivered),
        "failed": [
            {"id": failure.record.id, "error": str(failure.error)} for failure in result.failed
        ],
        "signals": [plain(wire_form(signal)) for signal in result.signals],
    }


def _ahead(stage: Stage, milliseconds: int) -> datetime:
    return stage.clock.now() + timedelta(milliseconds=milliseconds)


# -- calls of the store ---------------------------------------------------------------------


async def _store_call(stage: Stage, action: Mapping[str, Any]) -> Any:
    store = stage.mastra.storage.notifications
    given = {name: _timed(stage, value) for name, value in action["input"].items()}
    call = _STORE_CALLS.get(action["method"])
    if call is None:
        raise UnknownVocabularyError("call of the inbox store", action["method"])
    if isinstance(given.get("threadId"), str):
        stage.thread_ids.add(given["threadId"])
    return plain(await call(store, given))


def _timed(stage: Stage, value: Any) -> Any:
    if isinstance(value, Mapping) and set(value) == {"$now"}:
        return _ahead(stage, value["$now"])
    return value


async def _create(store: NotificationsStorage, given: dict[str, Any]) -> Any:
    return await store.create_notification(CreateNotification.model_validate(given))


async def _list(store: NotificationsStorage, given: dict[str, Any]) -> Any:
    options = snake_members(given)
    return await store.list_notifications(options.pop("thread_id"), **options)


async def _list_due(store: NotificationsStorage, given: dict[str, Any]) -> Any:
    return await store.list_due_notifications(given["now"], limit=given.get("limit"))


async def _update(store: NotificationsStorage, given: dict[str, Any]) -> Any:
    patch = NotificationPatch.model_validate(
        {name: value for name, value in given.items() if name not in ("id", "threadId")}
    )
    return await store.update_notification(given["threadId"], given["id"], patch)


async def _update_status(store: NotificationsStorage, given: dict[str, Any]) -> Any:
    return await store.update_notifications_status(given["threadId"], given["ids"], given["status"])


_STORE_CALLS: Final[Mapping[str, Callable[[NotificationsStorage, dict[str, Any]], Any]]] = (
    MappingProxyType(
        {
            "createNotification": _create,
            "listNotifications": _list,
            "listDueNotifications": _list_due,
            "updateNotification": _update,
            "updateNotificationsStatus": _update_status,
        }
    )
)


# -- pure functions -------------------------------------------------------------------------


def _record(given: Mapping[str, Any]) -> NotificationRecord:
    return NotificationRecord.model_validate({**_UNSAID, **given})


def _shown(signal: Signal) -> dict[str, Any]:
    return {"signal": plain(wire_form(signal)), "model": plain(model_turn(signal))}


async def _full_signals(stage: Stage, action: Mapping[str, Any]) -> Any:
    return [
        _shown(
            create_notification_signal(
                _record(given), signal_id=stage.mastra.ids.new(), created_at=stage.clock.now()
            )
        )
        for given in action["records"]
    ]


async def _summary_signals(stage: Stage, action: Mapping[str, Any]) -> Any:
    shown = []
    for given in action["lists"]:
        summary = summarize_notifications([_record(record) for record in given])
        signal = create_notification_summary_signal(
            summary, signal_id=stage.mastra.ids.new(), created_at=stage.clock.now()
        )
        shown.append({"summary": summary.to_wire(), **_shown(signal)})
    return shown


async def _decide(stage: Stage, action: Mapping[str, Any]) -> Any:
    return [await _decided(given) for given in action["cases"]]


async def _decided(given: Mapping[str, Any]) -> Any:
    try:
        decision = await resolve_notification_delivery_decision(
            policy_from_data(given.get("config")),
            record=_record(given["record"]),
            thread_state=given["threadState"],
            now=parse_iso(_DECIDED_AT),
        )
    except (MastraError, ScriptedFailureError) as exc:
        return error_form(exc)
    return decision.to_wire()


async def _failure_updates(stage: Stage, action: Mapping[str, Any]) -> Any:
    updates = []
    for attempts in action["attempts"]:
        update = resolve_delivery_failure_update(_record({"deliveryAttempts": attempts}))
        shown: dict[str, Any] = {"deliveryAttempts": update.attempts}
        updates.append({**shown, "status": "failed"} if update.is_final else shown)
    return updates


ACTS: Final[Mapping[str, Callable[[Stage, Mapping[str, Any]], Awaitable[Any]]]] = MappingProxyType(
    {
        "dispatch": _dispatch,
        "notifications": _store_call,
        "notifSignal": _full_signals,
        "summarySignal": _summary_signals,
        "decide": _decide,
        "failureUpdate": _failure_updates,
    }
)
