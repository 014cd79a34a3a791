"""Driver exceptions stop here: what comes out of this package is an error of ours.

``fault`` says what happened in words that fit every role; ``storage_error`` makes it the
error of a store. Pubsub and lease make their own from the same fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import psycopg

from mastra_core.errors import (
    MastraError,
    StorageArgumentError,
    StorageConnectionError,
    StorageError,
    StorageSchemaError,
    StorageTimeoutError,
)

__all__ = (
    "ClosedError",
    "ExhaustedError",
    "Fault",
    "FaultKind",
    "LostError",
    "NulError",
    "StrayCancelError",
    "error_id",
    "fault_of",
    "is_bad_json",
    "is_lost_statement",
    "is_rolled_back",
    "storage_error",
)


class ClosedError(Exception):
    """The pool was closed before or while the operation ran."""


class ExhaustedError(TimeoutError):
    """All connections were taken for too long."""

    def __init__(self, size: int) -> None:
        super().__init__(f"all {size} connections were busy")


class NulError(ValueError):
    """A text for a column of type ``text`` holds a NUL character."""


class LostError(Exception):
    """
    The connection broke while, or before, statements were on their way.

    ``unsent``: the server can't have carried them out.
    """

    def __init__(self, message: str, *, unsent: bool) -> None:
        super().__init__(message)
        self.unsent = unsent


class StrayCancelError(Exception):
    """A request to cancel another statement came late and hit this one, which was undone."""


class FaultKind(StrEnum):
    """What a caller could do about a failure."""

    #: Not carried out, because the server isn't there, or not for us; trying again may help.
    CONNECTION = "connection"
    #: Took too long; not carried out.
    TIMEOUT = "timeout"
    #: The connection broke in the middle: carried out, or not.
    IN_DOUBT = "in doubt"
    #: Tables are missing, or the server is too old.
    SCHEMA = "schema"
    #: A value can't be stored.
    ARGUMENT = "argument"
    #: Anything else; trying again won't help.
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One failure, in words."""

    kind: FaultKind
    message: str
    hint: str | None = None
    sqlstate: str = ""


_MIGRATE: Final = "Run: mastra-py migrate"


def fault_of(exc: BaseException, operation: str, place: str, *, writes: bool) -> Fault:
    """
    What a driver's exception means.

    Args:
        exc: What was raised.
        operation: Which call failed.
        place: The database, without secrets.
        writes: Whether the call might have changed something.
    """
    match exc:
        case ClosedError():
            return Fault(
                kind=FaultKind.CONNECTION,
                message=f"{place} was closed before {operation} was done.",
            )
        case ExhaustedError():
            return Fault(
                kind=FaultKind.TIMEOUT,
                message=f"{operation} got no connection to {place} in time: {exc}.",
                hint="Raise mastra_pool_size, or look for long transactions in pg_stat_activity.",
            )
        case LostError():
            return _lost(exc, operation, place, writes=writes)
        case TimeoutError():
            return _timeout(exc, operation, place, writes=writes)
        case NulError():
            return Fault(
                kind=FaultKind.ARGUMENT,
                message=f"{operation} was refused: a text holds a NUL character, "
                "which only JSON can keep.",
            )
        case UnicodeEncodeError():
            return Fault(
                kind=FaultKind.ARGUMENT,
                message=f"{operation} was refused: a text holds a lone surrogate, "
                "which only JSON can keep.",
            )
        case psycopg.Error():
            return _driver_fault(exc, operation, place)
        case OSError():
            return Fault(
                kind=FaultKind.CONNECTION,
                message=f"{place} can't be reached for {operation}: {exc or type(exc).__name__}.",
            )
        case _:
            return Fault(
                kind=FaultKind.OTHER,
                message=f"{operation} failed on {place}: {exc or type(exc).__name__}.",
            )


def _lost(exc: LostError, operation: str, place: str, *, writes: bool) -> Fault:
    if writes and not exc.unsent:
        return Fault(
            kind=FaultKind.IN_DOUBT,
            message=f"The connection to {place} broke during {operation}, "
            f"which was carried out, or not: {exc}.",
            hint="Read what is stored before you repeat the call.",
        )
    return Fault(
        kind=FaultKind.CONNECTION,
        message=f"The connection to {place} broke before {operation} was done: {exc}.",
    )


def _timeout(exc: TimeoutError, operation: str, place: str, *, writes: bool) -> Fault:
    if isinstance(exc.__cause__, psycopg.errors.QueryCanceled):
        return Fault(
            kind=FaultKind.TIMEOUT,
            message=f"{place} worked too long on {operation} and was told to stop.",
            hint="Raise mastra_statement_timeout_ms, or look for locks in pg_stat_activity.",
            sqlstate="57014",
        )
    return Fault(
        kind=FaultKind.IN_DOUBT if writes else FaultKind.TIMEOUT,
        message=f"{place} didn't answer in time during {operation}.",
    )


# -- what the server says ---------------------------------------------------------------------

#: By sqlstate or the first two characters of it: kind, what happened, hint.
_BY_STATE: Final[dict[str, tuple[FaultKind, str, str | None]]] = {
    "28": (
        FaultKind.CONNECTION,
        "refused the user or password",
        "Check user and password in the URL, and pg_hba.conf.",
    ),
    "3D000": (FaultKind.CONNECTION, "doesn't exist", "Create it with: createdb NAME"),
    "42501": (
        FaultKind.OTHER,
        "doesn't allow this user to do that",
        "Grant the rights, or let an account that has them run: mastra-py migrate",
    ),
    "25006": (
        FaultKind.OTHER,
        "is read-only",
        "Use the address of the primary: target_session_attrs=read-write",
    ),
    "42P01": (FaultKind.SCHEMA, "lacks a table", _MIGRATE),
    "42703": (FaultKind.SCHEMA, "lacks a column", _MIGRATE),
    "3F000": (FaultKind.SCHEMA, "lacks the schema", _MIGRATE),
    "57014": (FaultKind.TIMEOUT, "cancelled the statement", None),
    "55P03": (FaultKind.TIMEOUT, "couldn't get a lock in time", None),
    "40": (FaultKind.TIMEOUT, "was interrupted by other writers again and again", None),
    "53100": (FaultKind.OTHER, "has a full disk", "Free some space; nothing was written."),
    "53300": (
        FaultKind.CONNECTION,
        "has no connection left",
        "Lower mastra_pool_size, raise max_connections, or put a pooler in between.",
    ),
    "53": (FaultKind.CONNECTION, "lacks resources", None),
    "57P": (FaultKind.CONNECTION, "is starting or stopping", None),
    "08": (FaultKind.CONNECTION, "broke the connection", None),
    "22": (FaultKind.ARGUMENT, "can't store a value", None),
    "54": (
        FaultKind.ARGUMENT,
        "can't store a value of this size",
        "Keys may have some 2,600 bytes; documents some 255 MiB.",
    ),
    "23": (FaultKind.OTHER, "refused a row that breaks a constraint", None),
}

#: What libpq says where there is no sqlstate, because there was no session yet.
_BY_WORDS: Final[tuple[tuple[tuple[str, ...], str, str], ...]] = (
    (
        ("password authentication failed", "no password supplied", "role ", "authentication"),
        "refused the user or password",
        "Check user and password in the URL, and pg_hba.conf.",
    ),
    (
        ("no encryption", "SSL off", "no SSL"),
        "wants an encrypted connection",
        "Add sslmode=require to the URL.",
    ),
    (
        ("does not support SSL", "certificate", "SSL error", "sslrootcert"),
        "and this process don't agree on encryption",
        "Check sslmode and sslrootcert in the URL.",
    ),
    (
        ("the database system is",),
        "is starting or stopping",
        "It takes sessions again in a moment; what failed can be tried again.",
    ),
    (("database ",), "doesn't exist", "Create it with: createdb NAME"),
    (
        ("too many clients", "remaining connection slots", "too many connections"),
        "has no connection left",
        "Lower mastra_pool_size, raise max_connections, or put a pooler in between.",
    ),
    (
        ("Connection refused", "No such file", "could not translate host", "resolve host"),
        "can't be reached",
        "Is the server running, and are host and port right?",
    ),
)


def _driver_fault(exc: psycopg.Error, operation: str, place: str) -> Fault:
    said = (exc.diag.message_primary or str(exc)).strip().rstrip(".") or type(exc).__name__
    state = exc.sqlstate or ""
    for key in (state, state[:3], state[:2]):
        if key and key in _BY_STATE:
            kind, what, hint = _BY_STATE[key]
            return Fault(
                kind=kind,
                message=f"{place} {what} during {operation}: {said}.",
                hint=hint,
                sqlstate=state,
            )
    if isinstance(exc, psycopg.errors.ConnectionTimeout):
        return Fault(
            kind=FaultKind.TIMEOUT, message=f"{place} didn't answer in time to {operation}: {said}."
        )
    if isinstance(exc, psycopg.OperationalError) and not state:
        for words, what, hint in _BY_WORDS:
            if any(word in said for word in words):
                return Fault(
                    kind=FaultKind.CONNECTION, message=f"{place} {what}: {said}.", hint=hint
                )
        return Fault(
            kind=FaultKind.CONNECTION,
            message=f"{place} can't be reached for {operation}: {said}.",
        )
    return Fault(
        kind=FaultKind.OTHER,
        message=f"PostgreSQL refused {operation} on {place}: {said}.",
        sqlstate=state,
    )


_UNDONE: Final = (
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
    # The first error was about preparing a statement that is prepared already.
    psycopg.errors.InFailedSqlTransaction,
    StrayCancelError,
)


def is_rolled_back(exc: BaseException) -> bool:
    """Whether the server undid the transaction for no fault of its own: repeating is right."""
    if isinstance(exc, psycopg.errors.NotNullViolation):
        # How a message says that its id came into another thread a moment ago.
        return exc.diag.column_name == "thread_id"
    return isinstance(exc, _UNDONE)


def is_lost_statement(exc: BaseException) -> bool:
    """Whether a prepared statement was unknown, or too old; nothing was carried out."""
    if isinstance(exc, psycopg.errors.InvalidSqlStatementName):
        return True
    return isinstance(exc, psycopg.errors.FeatureNotSupported) and "cached plan" in str(exc)


def is_bad_json(exc: BaseException | None) -> bool:
    """Whether a statement stumbled over a text that is no JSON, or none that ``jsonb`` takes."""
    while exc is not None:
        if isinstance(
            exc, psycopg.errors.InvalidTextRepresentation | psycopg.errors.UntranslatableCharacter
        ):
            return True
        exc = exc.__cause__
    return False


# -- of a store -------------------------------------------------------------------------------


def error_id(operation: str) -> str:
    """The id of a store's failure of this operation."""
    return f"MASTRA_STORAGE_POSTGRES_{operation.upper()}_FAILED"


_CLASSES: Final[dict[FaultKind, type[StorageError]]] = {
    FaultKind.CONNECTION: StorageConnectionError,
    FaultKind.TIMEOUT: StorageTimeoutError,
    FaultKind.IN_DOUBT: StorageConnectionError,
    FaultKind.SCHEMA: StorageSchemaError,
    FaultKind.ARGUMENT: StorageArgumentError,
    FaultKind.OTHER: StorageError,
}


def storage_error(exc: BaseException, operation: str, place: str, *, writes: bool) -> BaseException:
    """
    What a store raises for a driver's exception, its cause set already.

    Errors of ours, and what is no ``Exception``, are given back as they are.
    """
    if isinstance(exc, MastraError) or not isinstance(exc, Exception):
        return exc
    fault = fault_of(exc, operation, place, writes=writes)
    details = {"operation": operation, "database": place}
    if fault.sqlstate:
        details["sqlstate"] = fault.sqlstate
    error = _CLASSES[fault.kind](
        fault.message, id=error_id(operation), hint=fault.hint, details=details
    )
    if fault.kind is FaultKind.IN_DOUBT:
        error.retryable = False
    error.__cause__ = exc
    return error
