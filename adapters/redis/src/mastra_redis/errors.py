"""Driver exceptions stop here: what comes out of this package is an error of the core."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType
from typing import Final, TypeVar

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    MaxConnectionsError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from mastra_core.base.redact import redact_url
from mastra_core.errors import (
    LeaseError,
    LeaseUnavailableError,
    MastraError,
    PubSubClosedError,
    PubSubConnectionError,
    PubSubError,
    StorageConnectionError,
    StorageError,
    StorageTimeoutError,
)
from mastra_redis.link import LinkClosedError, LostReplyError

__all__ = (
    "Fault",
    "Kind",
    "error_id",
    "fault_of",
    "lease_errors",
    "pubsub_error",
    "pubsub_errors",
    "storage_error",
    "storage_errors",
)

E = TypeVar("E", bound=MastraError)


class Kind(Enum):
    """What a failure means for whoever called."""

    #: Nothing was sent; it may be tried again.
    UNREACHABLE = auto()
    #: It was sent and never answered; nobody knows.
    UNKNOWN = auto()
    #: The server took too long.
    LATE = auto()
    #: We closed the connection ourselves.
    CLOSED = auto()
    #: The server answered that it won't do it now; later it may.
    NOT_NOW = auto()
    #: The server answered that it won't do it.
    REFUSED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A driver's exception in our words."""

    kind: Kind
    #: Goes on after the name of the server: ``can't be reached``.
    sentence: str
    hint: str | None = None
    #: A word that tests and ``doctor`` can rely on: ``out_of_memory``, ``read_only`` …
    reason: str


def error_id(operation: str) -> str:
    """The id of a failure of this storage operation."""
    return f"MASTRA_STORAGE_REDIS_{operation.upper()}_FAILED"


# -- what happened -----------------------------------------------------------------------------


def fault_of(exc: BaseException) -> Fault:
    """What a driver's exception means."""
    match exc:
        case LinkClosedError():
            return Fault(kind=Kind.CLOSED, sentence="was closed", reason="closed")
        case LostReplyError():
            return Fault(
                kind=Kind.UNKNOWN,
                sentence="was lost before it answered, so nobody knows what became of the call",
                reason="connection_lost",
            )
        case AuthenticationError() | AuthorizationError():
            return _authentication(exc)
        case BusyLoadingError():
            return Fault(
                kind=Kind.NOT_NOW,
                sentence="is still reading its data from disk",
                hint="It was just started; try again in a moment.",
                reason="loading",
            )
        case MaxConnectionsError():
            return _too_many_clients(str(exc))
        case ResponseError():
            return _refusal(exc)
        case RedisTimeoutError() | TimeoutError():
            return _late(exc)
        case RedisConnectionError() | OSError():
            return _unreachable(exc)
        case RedisError():
            return Fault(
                kind=Kind.REFUSED, sentence=f"gave an unreadable answer: {exc}", reason="protocol"
            )
        case _:
            return Fault(
                kind=Kind.REFUSED, sentence=f"failed: {type(exc).__name__}: {exc}", reason="failed"
            )


def _authentication(exc: Exception) -> Fault:
    return Fault(
        kind=Kind.REFUSED,
        sentence=f"refused the password: {exc}",
        hint="Give user and password in the URL, before the host and an @.",
        reason="authentication",
    )


def _too_many_clients(text: str) -> Fault:
    return Fault(
        kind=Kind.NOT_NOW,
        sentence=f"takes no more connections: {text}",
        hint="Raise maxclients, or close idle clients (CLIENT LIST).",
        reason="too_many_clients",
    )


def _late(exc: BaseException) -> Fault:
    return Fault(
        kind=Kind.LATE,
        sentence=f"didn't answer in time ({exc or 'timeout'})",
        hint="Something keeps it busy (SLOWLOG GET), or request_timeout_ms is too short.",
        reason="timeout",
    )


def _unreachable(exc: BaseException) -> Fault:
    cause = exc.__cause__
    if isinstance(cause, RedisError | OSError) and not isinstance(exc, ssl.SSLError):
        inner = fault_of(cause)
        if inner.reason not in {"unreachable", "timeout", "connection_lost"}:
            return inner
    text = str(exc) or type(exc).__name__
    detail = f"{text}: {cause}" if cause is not None and str(cause) not in text else text
    return Fault(
        kind=Kind.UNREACHABLE,
        sentence=f"can't be reached: {detail.rstrip('.')}",
        hint=_hint_for(exc, detail),
        reason="unreachable",
    )


def _hint_for(exc: BaseException, text: str) -> str:
    words = text.lower()
    if isinstance(exc, ssl.SSLCertVerificationError) or "certificate_verify_failed" in words:
        return (
            "Its certificate isn't trusted: name the one who signed it with ssl_ca_certs=FILE "
            "in the URL, and check the host's name."
        )
    if isinstance(exc, ssl.SSLError) or any(w in words for w in ("ssl", "wrong version", "tls")):
        return "The server may not speak TLS on this port: use redis:// instead of rediss://."
    if "closed by server" in words or "reset by peer" in words or "incompleteread" in words:
        return "If the server wants TLS, write rediss:// instead of redis://."
    return "Is it running, and are host and port right? Try: redis-cli -u URL ping"


#: Beginning of a refusal → what it means.
_REFUSALS: Final[tuple[tuple[str, Fault], ...]] = (
    (
        "OOM ",
        Fault(
            kind=Kind.NOT_NOW,
            sentence="is out of memory, so nothing was written",
            hint="Raise maxmemory or delete something; with an evicting maxmemory-policy "
            "data would be lost instead.",
            reason="out_of_memory",
        ),
    ),
    (
        "READONLY",
        Fault(
            kind=Kind.NOT_NOW,
            sentence="is a replica, so nothing was written",
            hint="Connect to the primary; after a failover the URL must follow it.",
            reason="read_only",
        ),
    ),
    (
        "LOADING",
        Fault(
            kind=Kind.NOT_NOW,
            sentence="is still reading its data from disk",
            hint="It was just started; try again in a moment.",
            reason="loading",
        ),
    ),
    (
        "MASTERDOWN",
        Fault(
            kind=Kind.NOT_NOW,
            sentence="is a replica without its primary",
            hint="Connect to the primary.",
            reason="read_only",
        ),
    ),
    (
        "MISCONF",
        Fault(
            kind=Kind.NOT_NOW,
            sentence="can't write to its disk and therefore refuses writes",
            hint="Look at its log; the disk may be full or its folder not writable.",
            reason="disk",
        ),
    ),
    (
        "BUSY ",
        Fault(
            kind=Kind.NOT_NOW,
            sentence="is busy with somebody's script",
            hint="End it with: redis-cli SCRIPT KILL",
            reason="busy_script",
        ),
    ),
    (
        "MOVED",
        Fault(
            kind=Kind.REFUSED,
            sentence="is part of a cluster and doesn't hold this key",
            hint="Redis Cluster isn't supported; use one primary, with replicas if you like.",
            reason="cluster",
        ),
    ),
    (
        "CROSSSLOT",
        Fault(
            kind=Kind.REFUSED,
            sentence="is part of a cluster and can't change these keys together",
            hint="Redis Cluster isn't supported; use one primary, with replicas if you like.",
            reason="cluster",
        ),
    ),
    (
        "CLUSTERDOWN",
        Fault(kind=Kind.NOT_NOW, sentence="belongs to a cluster that is down", reason="cluster"),
    ),
    (
        "WRONGTYPE",
        Fault(
            kind=Kind.REFUSED,
            sentence="holds something else under a key of ours",
            hint="Another program uses the same keys; choose another prefix or database number.",
            reason="wrong_type",
        ),
    ),
    (
        "NOAUTH",
        Fault(
            kind=Kind.REFUSED,
            sentence="wants a password",
            hint="Give user and password in the URL, before the host and an @.",
            reason="authentication",
        ),
    ),
    (
        "NOPERM",
        Fault(
            kind=Kind.REFUSED,
            sentence="doesn't allow this user to do that",
            hint="The user needs its keys, channels and commands; see ACL LOG.",
            reason="permission",
        ),
    ),
)


def _refusal(exc: ResponseError) -> Fault:
    text = str(exc)
    if isinstance(exc, OutOfMemoryError):
        return _known("OOM ")
    if isinstance(exc, ReadOnlyError):
        return _known("READONLY")
    if isinstance(exc, NoPermissionError):
        return _with_text(_known("NOPERM"), text)
    for beginning, fault in _REFUSALS:
        if text.startswith(beginning) or f" {beginning}" in text[:160] or f"-{beginning}" in text:
            return fault
    if text.startswith(("DB index", "invalid DB index")):
        return Fault(
            kind=Kind.REFUSED,
            sentence=f"has no such database: {text}",
            hint="The number at the end of the URL must be below the setting `databases`.",
            reason="wrong_database",
        )
    if "max number of clients" in text:
        return _too_many_clients(text)
    if "unknown command" in text.lower():
        return Fault(
            kind=Kind.REFUSED,
            sentence=f"doesn't know a command: {text}",
            hint="Redis 6.2 or later is needed.",
            reason="too_old",
        )
    return Fault(kind=Kind.REFUSED, sentence=f"refused: {text}", reason="refused")


def _known(beginning: str) -> Fault:
    return next(fault for name, fault in _REFUSALS if name == beginning)


def _with_text(fault: Fault, text: str) -> Fault:
    return Fault(
        kind=fault.kind,
        sentence=f"{fault.sentence}: {text}",
        hint=fault.hint,
        reason=fault.reason,
    )


# -- storage -----------------------------------------------------------------------------------


def storage_error(exc: BaseException, operation: str, where: str) -> BaseException:
    """What to raise from a storage call; errors of ours are given back as they are."""
    if isinstance(exc, MastraError) or not isinstance(exc, Exception):
        return exc
    fault = fault_of(exc)
    kinds: dict[Kind, type[StorageError]] = {
        Kind.UNREACHABLE: StorageConnectionError,
        Kind.CLOSED: StorageConnectionError,
        Kind.UNKNOWN: StorageConnectionError,
        Kind.LATE: StorageTimeoutError,
        Kind.NOT_NOW: StorageConnectionError,
        Kind.REFUSED: StorageError,
    }
    place = redact_url(where)
    error = kinds[fault.kind](
        f"Redis at {place} {fault.sentence} ({operation}).",
        id=error_id(operation),
        hint=fault.hint,
        details={"operation": operation, "server": place, "reason": fault.reason},
    )
    return _told(error, exc, fault)


class storage_errors:  # noqa: N801 - reads as the function that it stands for
    """
    Run one storage operation; let only ``StorageError`` out of it.

    Args:
        operation: Names the operation in the error's id.
        where: The server, for the sentence.
    """

    # A class, since every call goes through here and a generator costs several times as much.
    __slots__ = ("_operation", "_where")

    def __init__(self, operation: str, where: str) -> None:
        self._operation = operation
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(exc, Exception) and not isinstance(exc, MastraError):
            raise storage_error(exc, self._operation, self._where) from exc


# -- bus and leases ----------------------------------------------------------------------------


def pubsub_error(exc: BaseException, operation: str, where: str) -> BaseException:
    """What to raise from a call of the bus."""
    if isinstance(exc, MastraError) or not isinstance(exc, Exception):
        return exc
    fault = fault_of(exc)
    if fault.kind is Kind.CLOSED:
        return PubSubClosedError()
    kind = PubSubError if fault.kind is Kind.REFUSED else PubSubConnectionError
    place = redact_url(where)
    error = kind(
        f"Redis at {place} {fault.sentence} ({operation}).",
        hint=fault.hint,
        details={"operation": operation, "server": place, "reason": fault.reason},
    )
    return _told(error, exc, fault)


@contextmanager
def pubsub_errors(operation: str, where: str) -> Iterator[None]:
    """Run one step of the bus; let only ``PubSubError`` out of it."""
    try:
        yield
    except MastraError:
        raise
    except Exception as exc:
        raise pubsub_error(exc, operation, where) from exc


@contextmanager
def lease_errors(operation: str, where: str) -> Iterator[None]:
    """Run one lease operation; what failed means that nobody knows who owns the key."""
    try:
        yield
    except MastraError:
        raise
    except Exception as exc:
        fault = fault_of(exc)
        if fault.kind is Kind.CLOSED:
            raise PubSubClosedError("The lease provider is closed.") from exc
        kind = LeaseError if fault.kind is Kind.REFUSED else LeaseUnavailableError
        place = redact_url(where)
        raise kind(
            f"Redis at {place} {fault.sentence} ({operation}).",
            hint=fault.hint,
            details={"operation": operation, "server": place, "reason": fault.reason},
        ) from exc


def _told(error: E, cause: Exception, fault: Fault) -> E:
    error.__cause__ = cause
    if fault.kind in {Kind.UNKNOWN, Kind.LATE}:
        # It may have been done: only a caller who knows that twice is harmless may repeat it.
        error.retryable = False
    return error
