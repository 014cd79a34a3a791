"""Sources of signals: something outside is watched, and what happens there reaches threads
(signals.md 15)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from mastra_core.base.clock import Clock, SystemClock
from mastra_core.base.ids import Ids, UuidIds
from mastra_core.base.isotime import parse_iso, to_iso_ms
from mastra_core.base.tasks import TaskSupervisor, call_maybe_async
from mastra_core.contracts.storage import ThreadStateStorage
from mastra_core.errors import ConfigError, MastraError, SignalError, StorageConflictError, shown

if TYPE_CHECKING:
    from datetime import datetime

    from mastra_core.contracts.processor import Processor
    from mastra_core.contracts.tool import Tool

__all__ = (
    "NotifyingAgent",
    "SignalProvider",
    "Subscription",
    "WebhookRequest",
    "WebhookResponse",
)

logger = logging.getLogger(__name__)

_STATE_TYPE: Final = "mastra_py_subscriptions"
_ATTEMPTS: Final = 32


class NotifyingAgent(Protocol):
    """Whom a provider tells what happened."""

    @property
    def id(self) -> str: ...

    async def send_notification_signal(
        self, notification: Mapping[str, Any], *, resource_id: str, thread_id: str, if_idle: Any
    ) -> Any:
        """Put an event into the inbox of a thread."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One thread that wants to know about one thing outside."""

    id: str
    provider_id: str
    thread_id: str
    resource_id: str
    external_resource_id: str
    subscribed_at: datetime
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Who wants to know what."""
        return f"{self.resource_id}:{self.thread_id}:{self.external_resource_id}"

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {
            "id": self.id,
            "threadId": self.thread_id,
            "resourceId": self.resource_id,
            "externalResourceId": self.external_resource_id,
            "subscribedAt": to_iso_ms(self.subscribed_at),
            "metadata": dict(self.metadata),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRequest:
    """What the application's route received."""

    #: As it came (needed where a signature is checked), or parsed.
    body: bytes | str | Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)

    def header(self, name: str) -> str | None:
        """A header, whatever its case."""
        wanted = name.lower()
        return next((v for k, v in self.headers.items() if k.lower() == wanted), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookResponse:
    """What the application's route answers."""

    status: int = 200
    body: Any = None


class SignalProvider:
    """
    Base of providers: subscriptions, polling, and the way into the inbox.

    A subclass overrides ``poll`` or ``handle_webhook``, and may offer tools and processors. Its
    subscriptions survive a restart where the application has a store with thread state.

    Args:
        id: Names the provider; source of its notifications.
        poll_interval_ms: How often ``poll`` is called; 0 never.
    """

    id: str
    default_id: ClassVar[str] = "signals"

    def __init__(self, *, id: str | None = None, poll_interval_ms: int = 0) -> None:
        self.id = id or self.default_id
        if not isinstance(poll_interval_ms, int) or isinstance(poll_interval_ms, bool):
            raise ConfigError(f"poll_interval_ms is a number, not {shown(poll_interval_ms)}.")
        if poll_interval_ms < 0:
            raise ConfigError("poll_interval_ms isn't negative.")
        self.poll_interval_ms = poll_interval_ms
        self._subscriptions: dict[str, Subscription] = {}
        self._agent: NotifyingAgent | None = None
        self._clock: Clock = SystemClock()
        self._ids: Ids = UuidIds()
        self._states: ThreadStateStorage | None = None
        self._tasks: TaskSupervisor | None = None
        self._poller: asyncio.Task[None] | None = None

    # -- for subclasses -------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to watch; called once, not waited for, its failure is logged."""

    async def poll(self, subscriptions: Sequence[Subscription]) -> None:
        """Look whether something happened; never called twice at once."""

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResponse:
        """Take what a route of the application received."""
        return WebhookResponse(status=404, body={"error": f"{self.id} takes no webhooks"})

    def get_input_processors(self) -> Sequence[Processor]:
        """Processors before those of the agent."""
        return ()

    def get_output_processors(self) -> Sequence[Processor]:
        """Processors after those of the agent."""
        return ()

    def get_tools(self) -> Mapping[str, Tool] | Sequence[Tool]:
        """Tools of the agent; of two with one name its own wins."""
        return ()

    # -- life -----------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        """Is there an agent to tell?"""
        return self._agent is not None

    def connect(self, agent: NotifyingAgent) -> None:
        """Tell this agent from now on; the first one that asks counts."""
        if self._agent is None:
            self._agent = agent

    async def open(
        self, *, clock: Clock, ids: Ids, states: ThreadStateStorage | None = None
    ) -> None:
        """Remember the stored subscriptions, and begin to watch; opening twice is harmless."""
        if self._tasks is not None:
            return
        self._clock, self._ids, self._states = clock, ids, states
        self._tasks = TaskSupervisor(f"signal provider {self.id}")
        await self._load()
        self.start_polling()
        self._tasks.start(self._started(), name=f"start:{self.id}")

    async def _started(self) -> None:
        try:
            await self.start()
        except Exception:
            logger.exception("signal provider could not start", extra={"provider": self.id})

    def start_polling(self) -> None:
        """Poll every ``poll_interval_ms``; a second call changes nothing."""
        tasks = self._tasks
        if tasks is None or tasks.is_closed or self._poller is not None:
            return
        if self.poll_interval_ms > 0:
            self._poller = tasks.start(self._poll_for_ever(), name=f"poll:{self.id}")

    async def _poll_for_ever(self) -> None:
        while True:
            await self._clock.sleep(self.poll_interval_ms / 1000)
            subscriptions = self.subscriptions()
            if not subscriptions:
                continue
            try:
                await call_maybe_async(self.poll, subscriptions)
            except Exception:
                logger.exception("poll failed", extra={"provider": self.id})

    async def stop(self) -> None:
        """Stop watching and forget the subscriptions; what is stored stays."""
        tasks, self._tasks, self._poller = self._tasks, None, None
        if tasks is not None:
            await tasks.close()
        self._subscriptions.clear()
        self._states = None

    # -- subscriptions --------------------------------------------------------------------

    async def subscribe(
        self,
        external_resource_id: str,
        *,
        thread_id: str,
        resource_id: str,
        metadata: Mapping[str, Any] | None = None,
    ) -> Subscription:
        """
        Let a thread know about something outside; the second time the metadata is merged.

        Raises:
            ConfigError: A name is empty.
            StorageError: It can't be stored.
        """
        for name, value in (
            ("external_resource_id", external_resource_id),
            ("thread_id", thread_id),
            ("resource_id", resource_id),
        ):
            if not isinstance(value, str) or not value:
                raise ConfigError(f"{name} must be a text that is not empty, not {shown(value)}.")
        wanted = Subscription(
            id=self._ids.new("subscription"),
            provider_id=self.id,
            thread_id=thread_id,
            resource_id=resource_id,
            external_resource_id=external_resource_id,
            subscribed_at=self._clock.now(),
            metadata=dict(metadata or {}),
        )
        known = self._subscriptions.get(wanted.key)
        if known is not None:
            if not metadata:
                return known
            wanted = replace(known, metadata={**known.metadata, **metadata})
        self._subscriptions[wanted.key] = wanted
        await self._store({wanted.key: wanted.to_json()})
        return wanted

    async def unsubscribe(
        self, external_resource_id: str, *, thread_id: str, resource_id: str
    ) -> bool:
        """Let a thread be told no more; False if it wasn't."""
        key = f"{resource_id}:{thread_id}:{external_resource_id}"
        if self._subscriptions.pop(key, None) is None:
            return False
        await self._store({key: None})
        return True

    async def unsubscribe_all(self, *, thread_id: str, resource_id: str) -> int:
        """Let a thread be told nothing more; how many subscriptions it had."""
        gone = [s.key for s in self.subscriptions_of_thread(thread_id, resource_id)]
        for key in gone:
            del self._subscriptions[key]
        if gone:
            await self._store(dict.fromkeys(gone))
        return len(gone)

    def subscriptions(self) -> list[Subscription]:
        """All of them."""
        return list(self._subscriptions.values())

    def subscriptions_of_thread(self, thread_id: str, resource_id: str) -> list[Subscription]:
        """What a thread wants to know."""
        return [
            s
            for s in self._subscriptions.values()
            if (s.thread_id, s.resource_id) == (thread_id, resource_id)
        ]

    def subscriptions_to(self, external_resource_id: str) -> list[Subscription]:
        """Who wants to know about something outside."""
        return [
            s
            for s in self._subscriptions.values()
            if s.external_resource_id == external_resource_id
        ]

    # -- telling --------------------------------------------------------------------------

    async def notify(
        self,
        notification: Mapping[str, Any],
        *,
        resource_id: str,
        thread_id: str,
        if_idle: Mapping[str, Any] | None = None,
    ) -> Any:
        """
        Put an event into the inbox of a thread.

        Raises:
            SignalError: The provider isn't connected to an agent.
            MastraError: The event can't be put there.
        """
        if self._agent is None:
            raise SignalError(f"Signal provider {self.id!r} isn't connected to an agent.")
        return await self._agent.send_notification_signal(
            notification, resource_id=resource_id, thread_id=thread_id, if_idle=if_idle
        )

    # -- storage --------------------------------------------------------------------------

    @property
    def _owner(self) -> str:
        return f"mastra-py:signal-provider:{self.id}"

    async def _load(self) -> None:
        if self._states is None:
            return
        stored = await self._states.get_state(self._owner, _STATE_TYPE)
        for key, value in stored.items() if isinstance(stored, Mapping) else ():
            try:
                self._subscriptions.setdefault(key, self._subscription_from(value))
            except (KeyError, TypeError, ValueError, MastraError):
                logger.warning(
                    "stored subscription can't be read", extra={"provider": self.id, "key": key}
                )

    def _subscription_from(self, value: Mapping[str, Any]) -> Subscription:
        return Subscription(
            id=str(value["id"]),
            provider_id=self.id,
            thread_id=str(value["threadId"]),
            resource_id=str(value["resourceId"]),
            external_resource_id=str(value["externalResourceId"]),
            subscribed_at=parse_iso(str(value["subscribedAt"])),
            metadata=dict(value.get("metadata") or {}),
        )

    async def _store(self, changes: Mapping[str, Mapping[str, Any] | None]) -> None:
        """Write what changed; other processes' subscriptions stay."""
        if self._states is None:
            return
        for _ in range(_ATTEMPTS):
            stored = await self._states.get_state(self._owner, _STATE_TYPE)
            merged = {**(stored if isinstance(stored, Mapping) else {}), **changes}
            value = {key: dict(one) for key, one in merged.items() if one is not None}
            if await self._states.compare_and_set(
                self._owner, _STATE_TYPE, expected=stored, value=value
            ):
                return
        raise StorageConflictError(
            f"The subscriptions of {self.id!r} change too often to be written.",
            details={"provider": self.id},
        )
