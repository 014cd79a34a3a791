"""Driver exceptions stop here: what comes out of this package is a ``StorageError``."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

import apsw

from mastra_core.base.redact import redact_url
from mastra_core.errors import (
    MastraError,
    StorageArgumentError,
    StorageConnectionError,
    StorageDataError,
    StorageError,
    StorageTimeoutError,
)

__all__ = (
    "ClosedError",
    "error_id",
    "is_busy",
    "is_lost_answer",
    "is_malformed_json",
    "storage_error",
)

#: Codes of the driver for a connection, or an answer, that makes no sense any more.
_LOST: Final = frozenset(
    {"HRANA_WEBSOCKET_ERROR", "CLIENT_CLOSED", "SERVER_ERROR", "HRANA_PROTO_ERROR"}
)


class ClosedError(Exception):
    """The store was closed before or while the operation ran."""


def error_id(operation: str) -> str:
    """The id of a failure of this operation."""
    return f"MASTRA_STORAGE_LIBSQL_{operation.upper()}_FAILED"


def storage_error(
    exc: BaseException, operation: str, where: str, *, in_doubt: bool = False
) -> BaseException:
    """
    What to raise for a driver's exception, its cause set already.

    Args:
        exc: What the driver raised; errors of ours are given back as they are.
        operation: Which call failed.
        where: File or server, for the sentence.
        in_doubt: Nobody knows whether it was carried out, so repeating it may not be safe.
    """
    if isinstance(exc, MastraError) or not isinstance(exc, Exception):
        return exc
    place = redact_url(where)
    fault = _doubtful(exc, operation, place) if in_doubt else _fault(exc, operation, place)
    fault.__cause__ = exc
    return fault


def _fault(exc: Exception, operation: str, place: str) -> StorageError:
    found = error_id(operation)
    facts = {"operation": operation, "database": place}
    match exc:
        case ClosedError():
            return StorageConnectionError(
                f"The store of {place} was closed before {operation} was done.",
                id=found,
                details=facts,
            )
        case UnicodeEncodeError():
            return StorageArgumentError(
                f"{operation} was refused: a text holds a lone surrogate, "
                "which only JSON columns can keep.",
                id=found,
                details=facts,
            )
        case OverflowError():
            return StorageArgumentError(
                f"{operation} was refused: an integer doesn't fit into 64 bits.",
                id=found,
                details=facts,
            )
        case apsw.Error():
            return _sqlite_fault(exc, operation, place)
        case TimeoutError():
            return StorageTimeoutError(
                f"{place} didn't answer in time during {operation}.", id=found, details=facts
            )
        case OSError():
            return StorageConnectionError(
                f"{place} can't be reached for {operation}: {exc or type(exc).__name__}.",
                id=found,
                hint=_hint_for(str(exc)),
                details=facts,
            )
        case _:
            return _remote_fault(exc, operation, place)


# -- embedded ---------------------------------------------------------------------------------

_TooBig: Final = (apsw.TooBigError,)


def _sqlite_fault(exc: apsw.Error, operation: str, place: str) -> StorageError:
    found = error_id(operation)
    facts = {"operation": operation, "database": place}
    match exc:
        case apsw.BusyError() | apsw.LockedError():
            return StorageTimeoutError(
                f"{place} stayed locked by another process during {operation}.",
                id=found,
                hint="Something holds a long write transaction; raise busy_timeout_ms or end it.",
                details=facts,
            )
        case apsw.NotADBError():
            return StorageDataError(
                f"{place} is not a SQLite database, or it is encrypted; it was left as it is.",
                id=found,
                hint="Check the path in the URL.",
                details=facts,
            )
        case apsw.CorruptError():
            return StorageDataError(
                f"{place} is damaged; {operation} found pages that make no sense.",
                id=found,
                hint="Restore a backup, or save what can be saved with: sqlite3 FILE .recover",
                details=facts,
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return StorageError(
                f"{place} can't be written, so {operation} was refused.",
                id=found,
                hint="Make the file and its folder writable; SQLite writes -wal and -shm files.",
                details=facts,
            )
        case apsw.CantOpenError():
            is_folder = Path(place.removeprefix("file:")).is_dir()
            return StorageConnectionError(
                f"{place} can't be opened{': it is a folder' if is_folder else ''}.",
                id=found,
                hint="Name a file in it, such as mastra.db."
                if is_folder
                else "Its folder must exist and be writable for this user.",
                details=facts,
            )
        case apsw.FullError():
            return StorageError(
                f"The disk of {place} is full; {operation} has written nothing.",
                id=found,
                hint="Free some space; the store goes on working afterwards.",
                details=facts,
            )
        case apsw.InterruptError():
            return StorageConnectionError(
                f"The store of {place} was closed while {operation} ran; nothing was written.",
                id=found,
                details=facts,
            )
        case apsw.TooBigError():
            return StorageArgumentError(
                f"{operation} was refused: a value is larger than SQLite can hold.",
                id=found,
                details=facts,
            )
        case apsw.IOError():
            return StorageError(
                f"The file system failed {operation} on {place}: {exc}.", id=found, details=facts
            )
        case _:
            return StorageError(
                f"libSQL refused {operation} on {place}: {exc}.", id=found, details=facts
            )


def is_busy(exc: BaseException) -> bool:
    """Whether somebody else holds the lock, so that trying again may help."""
    if isinstance(exc, apsw.BusyError | apsw.LockedError):
        return True
    return isinstance(exc, Exception) and _code(exc).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def is_malformed_json(exc: BaseException) -> bool:
    """Whether a statement stumbled over a column that holds no JSON."""
    return "malformed JSON" in str(exc)


# -- remote -----------------------------------------------------------------------------------


def _code(exc: Exception) -> str:
    """The code of a ``LibsqlError``; empty for anything else."""
    code = getattr(exc, "code", "")
    return code if isinstance(code, str) else ""


def is_lost_answer(exc: BaseException) -> bool:
    """Whether the driver says that no answer came, or none that makes sense."""
    if not isinstance(exc, Exception) or _is_refused_token(exc):
        return False
    return _code(exc) in _LOST


def _is_refused_token(exc: Exception) -> bool:
    text = str(exc)
    return _code(exc).startswith("AUTH") or " 401 " in text or " 403 " in text


def _doubtful(exc: Exception, operation: str, place: str) -> StorageError:
    """The fault of a write that was sent and never answered."""
    kind = StorageTimeoutError if isinstance(exc, TimeoutError) else StorageConnectionError
    fault = kind(
        f"{place} never answered {operation}, which was carried out, or not: "
        f"{exc or type(exc).__name__}.",
        id=error_id(operation),
        hint="Read what is stored before you repeat the call.",
        details={"operation": operation, "database": place},
    )
    fault.retryable = False
    return fault


def _hint_for(text: str) -> str:
    """What to look at first when a server can't be reached."""
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "Its certificate isn't trusted here: let SSL_CERT_FILE name the one who signed it."
    if "SSL:" in text:
        return "The server may not speak TLS on this port: use libsql+http:// or libsql+ws://."
    return (
        "Is the server running, and are host and port right? "
        "If it wants TLS, use libsql+https:// or libsql+wss://."
    )


def _remote_fault(exc: Exception, operation: str, place: str) -> StorageError:
    found = error_id(operation)
    code, text = _code(exc), str(exc)
    facts = {"operation": operation, "database": place, "code": code}
    if is_busy(exc):
        return StorageTimeoutError(
            f"{place} stayed locked by other writers during {operation}.", id=found, details=facts
        )
    if _is_refused_token(exc):
        return StorageConnectionError(
            f"{place} refused the token during {operation}.",
            id=found,
            hint="Give a valid token: auth_token=…, or authToken=… in the URL.",
            details=facts,
        )
    if code in _LOST or type(exc).__module__.startswith("aiohttp"):
        return StorageConnectionError(
            f"{place} can't be reached for {operation}: {text or type(exc).__name__}.",
            id=found,
            hint=_hint_for(text),
            details=facts,
        )
    if isinstance(exc, sqlite3.Error):
        return StorageError(f"libSQL refused {operation}: {text}.", id=found, details=facts)
    return StorageError(
        f"libSQL refused {operation} on {place}: {text or type(exc).__name__}.",
        id=found,
        details=facts,
    )
