"""Driver exceptions stop here: what comes out of this package are errors of ours.

What went wrong is worked out once; the three doors turn it into the error of their tree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from bson.errors import BSONError, InvalidBSON
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    DocumentTooLarge,
    ExecutionTimeout,
    InvalidOperation,
    InvalidURI,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    WTimeoutError,
)

from mastra_core.errors import (
    InvalidUrlError,
    LeaseError,
    LeaseUnavailableError,
    MastraError,
    PubSubClosedError,
    PubSubConnectionError,
    PubSubError,
    StorageArgumentError,
    StorageConnectionError,
    StorageDataError,
    StorageError,
    StorageSchemaError,
    StorageTimeoutError,
)

__all__ = (
    "MINIMUM_SERVER",
    "Fault",
    "Kind",
    "OldServerError",
    "bus_errors",
    "error_id",
    "heed",
    "is_duplicate",
    "is_transient",
    "lease_errors",
    "requests",
    "storage_errors",
)

MINIMUM_SERVER: Final = (6, 0)
"""The oldest server that is supported."""

_DUPLICATE_KEY: Final = 11000
_TOO_LARGE: Final = frozenset({10334, 17419, 17420, 17280})
_UNAUTHORIZED: Final = 13
_AUTH_FAILED: Final = frozenset({11, 18, 334})
_TIMED_OUT: Final = frozenset({50, 262, 24, 46})
_NO_TRANSACTIONS: Final = 20
_DISK_FULL: Final = 14031


class OldServerError(Exception):
    """The server is older than what is supported."""

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found


class Kind(StrEnum):
    """How a caller would act."""

    UNREACHABLE = "unreachable"
    BROKEN = "broken"
    TIMED_OUT = "timed out"
    CLOSED = "closed"
    ARGUMENT = "argument"
    DATA = "data"
    SCHEMA = "schema"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Fault:
    """What an exception of the driver means."""

    kind: Kind
    message: str
    hint: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def error_id(operation: str) -> str:
    """The id of a failure of this storage operation."""
    return f"MASTRA_STORAGE_MONGODB_{operation.upper()}_FAILED"


def is_duplicate(exc: BaseException) -> bool:
    """Whether a unique index refused a write."""
    if isinstance(exc, BulkWriteError):
        errors = exc.details.get("writeErrors", ()) if exc.details else ()
        return any(error.get("code") == _DUPLICATE_KEY for error in errors)
    return isinstance(exc, OperationFailure) and exc.code == _DUPLICATE_KEY


def is_transient(exc: BaseException) -> bool:
    """Whether a transaction lost a race and may simply be run again."""
    return isinstance(exc, PyMongoError) and exc.has_error_label("TransientTransactionError")


# -- doors ------------------------------------------------------------------------------------


def requests() -> int:
    """How often the running task was asked to stop."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # nothing runs
        return 0
    return task.cancelling() if task is not None else 0


def heed(before: int) -> None:
    """
    Stop if that was asked for since.

    Before Python 3.12 ``asyncio.wait_for``, which the driver uses for every write to its
    socket, may lose a cancellation that comes in the moment in which the write is done.
    """
    if requests() > before:
        raise asyncio.CancelledError


@contextmanager
def storage_errors(operation: str, where: str) -> Iterator[None]:
    """Run one storage operation; let only errors of ours out of it."""
    before = requests()
    try:
        yield
        heed(before)
    except MastraError:
        raise
    except Exception as exc:
        raise _storage_error(exc, operation, where) from exc


@contextmanager
def bus_errors(operation: str, where: str) -> Iterator[None]:
    """Run one step of the bus; let only errors of ours out of it."""
    before = requests()
    try:
        yield
        heed(before)
    except MastraError:
        raise
    except Exception as exc:
        fault = _fault(exc, operation, where)
        kind: type[PubSubError] = PubSubError
        if fault.kind in {Kind.UNREACHABLE, Kind.BROKEN, Kind.TIMED_OUT}:
            kind = PubSubConnectionError
        elif fault.kind is Kind.CLOSED:
            kind = PubSubClosedError
        raise kind(fault.message, hint=fault.hint, details=fault.facts) from exc


@contextmanager
def lease_errors(operation: str, where: str) -> Iterator[None]:
    """Run one operation on a lease; let only errors of ours out of it."""
    before = requests()
    try:
        yield
        heed(before)
    except MastraError:
        raise
    except Exception as exc:
        fault = _fault(exc, operation, where)
        if fault.kind is Kind.CLOSED:
            raise PubSubClosedError(fault.message, details=fault.facts) from exc
        gone = fault.kind in {Kind.UNREACHABLE, Kind.BROKEN, Kind.TIMED_OUT}
        kind = LeaseUnavailableError if gone else LeaseError
        raise kind(fault.message, hint=fault.hint, details=fault.facts) from exc


def _storage_error(exc: Exception, operation: str, where: str) -> MastraError:
    if isinstance(exc, InvalidURI | ConfigurationError):
        return InvalidUrlError(url=where, reason=str(exc))
    fault = _fault(exc, operation, where)
    error = _STORAGE[fault.kind](
        fault.message, id=error_id(operation), hint=fault.hint, details=fault.facts
    )
    if fault.kind is Kind.BROKEN:
        # Nobody knows whether it was carried out, so repeating isn't safe for every call.
        error.retryable = False
    return error


_STORAGE: Final[dict[Kind, type[StorageError]]] = {
    Kind.UNREACHABLE: StorageConnectionError,
    Kind.BROKEN: StorageConnectionError,
    Kind.CLOSED: StorageConnectionError,
    Kind.TIMED_OUT: StorageTimeoutError,
    Kind.ARGUMENT: StorageArgumentError,
    Kind.DATA: StorageDataError,
    Kind.SCHEMA: StorageSchemaError,
    Kind.REFUSED: StorageError,
}


# -- what it means ----------------------------------------------------------------------------


def _fault(exc: Exception, operation: str, where: str) -> Fault:
    facts: dict[str, Any] = {"operation": operation, "database": where}
    match exc:
        case OldServerError():
            needed = ".".join(map(str, MINIMUM_SERVER))
            return Fault(
                Kind.SCHEMA,
                f"{where} runs MongoDB {exc.found}, but {needed} or later is needed.",
                "Upgrade the server.",
                {**facts, "found": exc.found, "needed": needed},
            )
        case WaitQueueTimeoutError():
            return Fault(
                Kind.TIMED_OUT,
                f"No connection to {where} became free for {operation}.",
                "All connections of the pool are busy; raise mastra_pool_size.",
                facts,
            )
        case ServerSelectionTimeoutError():
            return _unreachable(exc, operation, where, facts)
        case NetworkTimeout() | ExecutionTimeout() | WTimeoutError():
            return _timed_out(operation, where, facts)
        case AutoReconnect() | ConnectionFailure():
            return Fault(
                Kind.BROKEN,
                f"The connection to {where} broke during {operation}: {exc}",
                None,
                facts,
            )
        case OperationFailure():
            return _refused(exc, operation, where, facts)
        case DocumentTooLarge():
            return _too_large(operation, facts)
        case InvalidOperation():
            return Fault(
                Kind.CLOSED, f"{where} was closed before {operation} was done.", None, facts
            )
        case InvalidURI() | ConfigurationError():
            return Fault(Kind.REFUSED, f"{where} can't be used: {exc}", None, facts)
        case InvalidBSON():
            return Fault(
                Kind.DATA, f"{operation} read a document that makes no sense: {exc}", None, facts
            )
        case UnicodeEncodeError():
            return Fault(
                Kind.ARGUMENT,
                f"{operation} was refused: a text holds a lone surrogate, "
                "which only JSON members can keep.",
                None,
                facts,
            )
        case OverflowError():
            return Fault(
                Kind.ARGUMENT,
                f"{operation} was refused: an integer doesn't fit into 64 bits.",
                None,
                facts,
            )
        case BSONError():
            return Fault(Kind.ARGUMENT, f"{operation} was refused: {exc}", None, facts)
        case TimeoutError():
            return _timed_out(operation, where, facts)
        case OSError():
            return Fault(
                Kind.UNREACHABLE,
                f"{where} can't be reached for {operation}: {exc or type(exc).__name__}.",
                None,
                facts,
            )
        case _:
            return Fault(
                Kind.REFUSED,
                f"MongoDB refused {operation} on {where}: {exc or type(exc).__name__}",
                None,
                facts,
            )


def _unreachable(exc: Exception, operation: str, where: str, facts: dict[str, Any]) -> Fault:
    text = str(exc)
    hint = "Is the server running there? If it wants TLS, add tls=true to the URL."
    if "SSL" in text or "TLS" in text or "certificate" in text:
        hint = "The TLS handshake failed: check tls=, tlsCAFile= and the name in the certificate."
    elif "No replica set members" in text or "primary" in text.lower():
        hint = "The replica set has no primary now, or replicaSet= names another one."
    return Fault(
        Kind.UNREACHABLE,
        f"{where} can't be reached for {operation}: {text.partition(', Timeout:')[0]}.",
        hint,
        facts,
    )


def _timed_out(operation: str, where: str, facts: dict[str, Any]) -> Fault:
    return Fault(
        Kind.TIMED_OUT,
        f"{where} didn't finish {operation} in time.",
        "Raise mastra_request_timeout_ms if the server is only slow.",
        facts,
    )


def _too_large(operation: str, facts: dict[str, Any]) -> Fault:
    return Fault(
        Kind.ARGUMENT,
        f"{operation} was refused: a document would be over the 16 MiB that MongoDB can hold.",
        None,
        facts,
    )


def _refused(exc: OperationFailure, operation: str, where: str, facts: dict[str, Any]) -> Fault:
    code = exc.code or 0
    facts = {**facts, "code": code}
    if code in _AUTH_FAILED:
        return Fault(
            Kind.REFUSED,
            f"{where} refused the user name or password.",
            "Check user and password in the URL, and authSource= if the user lives elsewhere.",
            facts,
        )
    if code == _UNAUTHORIZED:
        return Fault(
            Kind.REFUSED,
            f"The user of {where} isn't allowed to {operation}.",
            "Grant the role readWrite on the database.",
            facts,
        )
    if code in _TIMED_OUT or exc.timeout:
        return _timed_out(operation, where, facts)
    if code in _TOO_LARGE:
        return _too_large(operation, facts)
    if code == _DISK_FULL:
        return Fault(
            Kind.REFUSED,
            f"The disk of {where} is full; nothing of {operation} was written.",
            "Free some space; the store goes on working afterwards.",
            facts,
        )
    if exc.has_error_label("RetryableWriteError") or exc.has_error_label(
        "TransientTransactionError"
    ):
        return Fault(Kind.BROKEN, f"{where} changed its primary during {operation}.", None, facts)
    text = str(exc.details.get("errmsg", exc)) if exc.details else str(exc)
    return Fault(Kind.REFUSED, f"MongoDB refused {operation} on {where}: {text}", None, facts)
