"""Verified GitHub deliveries reach the threads that subscribed (signals.md 15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs

from mastra_core.errors import ConfigError, shown
from mastra_core.plugins import AdapterContext
from mastra_core.threads.providers import Subscription, WebhookRequest, WebhookResponse
from mastra_core.threads.webhooks import WebhookSignals, payload_of
from mastra_github.mapping import Delivery, notification_from_delivery, resources_of_delivery
from mastra_github.settings import GitHubSettings
from mastra_github.signature import verify_signature

__all__ = ("GitHubSignals", "make_provider")

#: Under this member the event's name travels with its payload.
_EVENT: Final = "\0event"
_FORM: Final = "application/x-www-form-urlencoded"
_MAX_BODY: Final = 25 * 1024 * 1024


class GitHubSignals(WebhookSignals):
    """
    GitHub webhooks: each delivery whose signature is right becomes a notification.

    A thread subscribes to ``owner/repo``, to ``owner/repo#12``, or to an organisation. The
    application's route passes headers and body on as they came, and answers with what
    ``handle_webhook`` returns.

    Args:
        secret: The secret of the webhook, or several while one is replaced.
        id: Names the provider.
        max_body_bytes: Bodies above this are refused unread.

    Raises:
        ConfigError: There is no secret, or an empty one.
    """

    default_id: ClassVar[str] = "github"

    def __init__(
        self,
        secret: str | Sequence[str],
        *,
        id: str | None = None,
        max_body_bytes: int = _MAX_BODY,
    ) -> None:
        super().__init__(id=id)
        secrets = (secret,) if isinstance(secret, str) else tuple(secret)
        if not secrets or not all(isinstance(one, str) and one for one in secrets):
            raise ConfigError(
                "GitHub webhooks need a secret: without one anybody could send events.",
                hint="Set the same secret here and in the settings of the webhook.",
            )
        if not isinstance(max_body_bytes, int) or max_body_bytes < 1:
            raise ConfigError(f"max_body_bytes is a positive number, not {shown(max_body_bytes)}.")
        self._secrets = secrets
        self._max_body_bytes = max_body_bytes

    def __repr__(self) -> str:
        return f"GitHubSignals(id={self.id!r})"

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResponse:
        """
        Verify a delivery and tell all threads that want to know; how many were told.

        401 without a right signature, 413 above the limit, 400 if it is no delivery.
        """
        body = request.body
        if isinstance(body, str):
            body = body.encode()
        if not isinstance(body, bytes | bytearray):
            return _refused(400, "the body is needed as it came, not parsed")
        if len(body) > self._max_body_bytes:
            return _refused(413, "the body is too large")
        if not verify_signature(bytes(body), request.header("X-Hub-Signature-256"), self._secrets):
            return _refused(401, "the signature is missing or wrong")
        event = request.header("X-GitHub-Event")
        payload = _payload(request, bytes(body))
        if not event or payload is None:
            return _refused(400, "this is no delivery of GitHub")
        return await self.tell({**payload, _EVENT: event})

    def resource_ids(self, payload: Mapping[str, Any]) -> list[str]:
        """The repository, the issue or pull request, the organisation."""
        return resources_of_delivery(_delivery(payload))

    def notification(
        self, payload: Mapping[str, Any], subscription: Subscription
    ) -> Mapping[str, Any]:
        """What happened, how urgent it is, what it belongs to."""
        return notification_from_delivery(_delivery(payload))


def make_provider(options: GitHubSettings, context: AdapterContext) -> GitHubSignals:  # noqa: ARG001 - factories get it
    """The provider that a configuration describes."""
    return GitHubSignals(
        [secret.get_secret_value() for secret in options.secrets],
        max_body_bytes=options.max_body_bytes,
    )


def _refused(status: int, why: str) -> WebhookResponse:
    return WebhookResponse(status=status, body={"error": why})


def _payload(request: WebhookRequest, body: bytes) -> Mapping[str, Any] | None:
    """The JSON object of the body, which a webhook may also send as a form."""
    kind = (request.header("Content-Type") or "").partition(";")[0].strip().lower()
    if kind == _FORM:
        try:
            fields = parse_qs(body.decode(), strict_parsing=True, max_num_fields=8)
        except ValueError:
            return None
        body = "".join(fields.get("payload", ())).encode()
    return payload_of(WebhookRequest(body=body))


def _delivery(payload: Mapping[str, Any]) -> Delivery:
    members = dict(payload)
    return Delivery(event=str(members.pop(_EVENT, "unknown")), payload=members)
