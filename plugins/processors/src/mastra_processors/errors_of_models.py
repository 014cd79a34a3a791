"""What a failed request says about itself, whoever raised it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from mastra_core.base.clock import Clock

__all__ = (
    "causes_of",
    "is_refused",
    "is_retryable",
    "retry_after_ms",
    "status_of",
    "words_of",
)

#: Codes of providers that say: the request is fine, the service isn't.
_TRANSIENT: Final = frozenset(
    {
        "internal_error",
        "internal_server_error",
        "overloaded_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "server_error",
        "server_is_overloaded",
        "service_unavailable",
        "slow_down",
        "timeout",
    }
)
_ADVICE: Final = ("you can retry your request", "please try again later", "please retry your")
#: Nobody is let in by asking twice.
_REFUSED_STATUS: Final = frozenset({401, 403})
_REFUSED_CODES: Final = frozenset(
    {
        "access_denied",
        "authentication_error",
        "forbidden",
        "incorrect_api_key",
        "insufficient_permissions",
        "invalid_api_key",
        "permission_denied",
        "permission_error",
        "unauthorized",
    }
)


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, outermost first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def words_of(error: BaseException) -> str:
    """All messages of an error and its causes, in lower case."""
    return "\n".join(_words(one) for one in causes_of(error))


def _words(error: BaseException) -> str:
    details = getattr(error, "details", None) or {}
    body = getattr(error, "body", None)
    return f"{error} {details} {body or ''}".lower()


def status_of(error: BaseException) -> int | None:
    """The HTTP status that the provider answered with; None if there was no answer."""
    for name in ("status", "status_code"):
        status = getattr(error, name, None)
        if isinstance(status, int) and status:
            return status
    return None


def _codes(error: BaseException) -> Iterator[str]:
    for value in (getattr(error, "code", None), getattr(error, "id", None), _of_body(error)):
        if isinstance(value, str):
            yield value.lower()


def _of_body(error: BaseException) -> object:
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    return inner.get("code") or inner.get("type") if isinstance(inner, Mapping) else None


def is_refused(error: BaseException) -> bool:
    """The provider doesn't let us in; repeating changes nothing."""
    return any(
        status_of(one) in _REFUSED_STATUS or not _REFUSED_CODES.isdisjoint(_codes(one))
        for one in causes_of(error)
    )


def is_retryable(error: BaseException) -> bool:
    """The error, or one of its causes, says that repeating may help."""
    return any(
        getattr(one, "retryable", False) is True
        or getattr(one, "is_retryable", False) is True
        or not _TRANSIENT.isdisjoint(_codes(one))
        or any(advice in _words(one) for advice in _ADVICE)
        for one in causes_of(error)
    )


def retry_after_ms(error: BaseException, clock: Clock) -> int | None:
    """How long the provider asks to wait; None if it doesn't, or the time is over."""
    for one in causes_of(error):
        seconds = getattr(one, "retry_after", None)
        if isinstance(seconds, int | float) and seconds > 0:
            return round(seconds * 1000)
        wait = _from_headers(getattr(one, "headers", None), clock)
        if wait is not None:
            return wait
    return None


def _from_headers(headers: Any, clock: Clock) -> int | None:
    if not isinstance(headers, Mapping):
        return None
    value = next((str(v) for k, v in headers.items() if str(k).lower() == "retry-after"), None)
    if value is None:
        return None
    try:
        wait = round(float(value) * 1000)
    except ValueError:
        try:
            wait = round((parsedate_to_datetime(value) - clock.now()).total_seconds() * 1000)
        except (ValueError, TypeError):
            return None
    return wait if wait > 0 else None
