"""The notification inbox: events become durable records, records become signals."""

from __future__ import annotations

from mastra_core.notifications.agents import AgentInbox, FindAgent
from mastra_core.notifications.claim_book import DispatchFailure, DispatchResult
from mastra_core.notifications.decision import DecisionLike, DeliveryDecision, DeliveryInput
from mastra_core.notifications.failures import (
    MAX_NOTIFICATION_DELIVERY_ATTEMPTS,
    FailureUpdate,
    resolve_delivery_failure_update,
)
from mastra_core.notifications.inbox import DEFAULT_LIST_LIMIT, NotificationInbox
from mastra_core.notifications.inbox_tool import (
    NotificationInboxTool,
    create_notification_inbox_tool,
)
from mastra_core.notifications.ingest import NotificationInput, NotificationResult
from mastra_core.notifications.policy import (
    DeliveryPolicy,
    default_notification_delivery_decision,
    delivery_policy_from,
    resolve_notification_delivery_decision,
)
from mastra_core.notifications.schedule import (
    NOTIFICATION_DISPATCH_SCHEDULE_ROW_ID,
    NOTIFICATION_DISPATCH_WORKFLOW_ID,
    DispatchSchedule,
    build_notification_dispatch_schedule,
    is_dispatch_schedule,
)
from mastra_core.notifications.service import NotificationService
from mastra_core.notifications.settings import (
    DEFAULT_BATCH_SIZE,
    DEFAULT_CRON,
    NotificationSettings,
    settings_from,
)
from mastra_core.notifications.signals import (
    create_notification_signal,
    create_notification_summary_signal,
)
from mastra_core.notifications.summary import NotificationSummary, summarize_notifications

__all__ = (
    "DEFAULT_BATCH_SIZE",
    "DEFAULT_CRON",
    "DEFAULT_LIST_LIMIT",
    "MAX_NOTIFICATION_DELIVERY_ATTEMPTS",
    "NOTIFICATION_DISPATCH_SCHEDULE_ROW_ID",
    "NOTIFICATION_DISPATCH_WORKFLOW_ID",
    "AgentInbox",
    "DecisionLike",
    "DeliveryDecision",
    "DeliveryInput",
    "DeliveryPolicy",
    "DispatchFailure",
    "DispatchResult",
    "DispatchSchedule",
    "FailureUpdate",
    "FindAgent",
    "NotificationInbox",
    "NotificationInboxTool",
    "NotificationInput",
    "NotificationResult",
    "NotificationService",
    "NotificationSettings",
    "NotificationSummary",
    "build_notification_dispatch_schedule",
    "create_notification_inbox_tool",
    "create_notification_signal",
    "create_notification_summary_signal",
    "default_notification_delivery_decision",
    "delivery_policy_from",
    "is_dispatch_schedule",
    "resolve_delivery_failure_update",
    "resolve_notification_delivery_decision",
    "settings_from",
    "summarize_notifications",
)
