"""A provider that turns webhooks into notifications (signals.md 15)."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from mastra_core.base.jsonjs import decode
from mastra_core.errors import ConfigError, WireDecodeError, shown
from mastra_core.threads.providers import (
    SignalProvider,
    Subscription,
    WebhookRequest,
    WebhookResponse,
)

__all__ = ("WebhookSignals", "payload_of")

logger = logging.getLogger(__name__)


class WebhookSignals(SignalProvider):
    """
    Tells every subscribed thread what a webhook brought.

    The application owns the route and the verification of who calls it.

    Args:
        id: Names the provider.
        extract_resource_id: The outside id of a payload, several, or None; by default
            ``payload["resource"]``, else ``payload["externalResourceId"]``.
        build_notification: The notification of a payload for one subscription.
    """

    default_id: ClassVar[str] = "webhook-signals"

    def __init__(
        self,
        *,
        id: str | None = None,
        extract_resource_id: Callable[[Mapping[str, Any]], str | Iterable[str] | None]
        | None = None,
        build_notification: Callable[[Mapping[str, Any], Subscription], Mapping[str, Any]]
        | None = None,
    ) -> None:
        super().__init__(id=id)
        for name, value in (
            ("extract_resource_id", extract_resource_id),
            ("build_notification", build_notification),
        ):
            if value is not None and not callable(value):
                raise ConfigError(f"{name} is a function, not {shown(value)}.")
        self._extract = extract_resource_id
        self._build = build_notification

    # -- what a subclass says otherwise ----------------------------------------------------

    def resource_ids(self, payload: Mapping[str, Any]) -> list[str]:
        """What a payload is about, each once."""
        if self._extract is not None:
            found = self._extract(payload)
        else:
            found = payload.get("resource") or payload.get("externalResourceId")
        if found is None:
            return []
        ids = [found] if isinstance(found, str) else list(found)
        return list(dict.fromkeys(str(one) for one in ids if one))

    def notification(
        self, payload: Mapping[str, Any], subscription: Subscription
    ) -> Mapping[str, Any]:
        """The event for one thread; a delivery that comes again has the same ``dedupe_key``."""
        if self._build is not None:
            return self._build(payload, subscription)
        external = subscription.external_resource_id
        text = json.dumps(payload, sort_keys=True, separators=(",", ":"), default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        return {
            "source": self.id,
            "kind": "webhook-event",
            "priority": "medium",
            "summary": f"Webhook event for {external}",
            "payload": dict(payload),
            "dedupe_key": f"{self.id}:{external}:{digest}",
            "coalesce_key": f"{self.id}:{external}",
        }

    # -- the webhook ----------------------------------------------------------------------

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResponse:
        """Tell all threads that want to know; how many were told."""
        payload = payload_of(request)
        if payload is None:
            return WebhookResponse(status=400, body={"error": "the body is no JSON object"})
        return await self.tell(payload)

    async def tell(self, payload: Mapping[str, Any]) -> WebhookResponse:
        """Tell the threads that want to know what a payload is about."""
        matched = 0
        told: set[tuple[str, str]] = set()
        for external in self.resource_ids(payload):
            for subscription in self.subscriptions_to(external):
                target = (subscription.resource_id, subscription.thread_id)
                if target in told:
                    continue
                told.add(target)
                matched += await self._tell(payload, subscription)
        return WebhookResponse(body={"matched": matched})

    async def _tell(self, payload: Mapping[str, Any], subscription: Subscription) -> bool:
        try:
            await self.notify(
                self.notification(payload, subscription),
                resource_id=subscription.resource_id,
                thread_id=subscription.thread_id,
            )
        except Exception:
            logger.exception(
                "webhook event not delivered",
                extra={"provider": self.id, "thread_id": subscription.thread_id},
            )
            return False
        return True

    # -- signals that ask for subscriptions ------------------------------------------------

    def subscribe_signal(self, external_resource_id: str) -> dict[str, Any]:
        """A signal that tells the model of a new subscription."""
        return self._signal("webhook-subscribe", external_resource_id)

    def unsubscribe_signal(self, external_resource_id: str) -> dict[str, Any]:
        """A signal that tells the model of the end of one."""
        return self._signal("webhook-unsubscribe", external_resource_id)

    def _signal(self, tag: str, external_resource_id: str) -> dict[str, Any]:
        return {
            "type": "reactive",
            "tagName": tag,
            "contents": external_resource_id,
            "attributes": {"resource": external_resource_id},
        }


def payload_of(request: WebhookRequest) -> Mapping[str, Any] | None:
    """The body as a JSON object; None if it is none."""
    body = request.body
    if isinstance(body, bytes | bytearray):
        try:
            body = bytes(body).decode()
        except UnicodeDecodeError:
            return None
    if isinstance(body, str):
        try:
            body = decode(body)
        except WireDecodeError:
            return None
    return body if isinstance(body, Mapping) else None
