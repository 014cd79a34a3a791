"""pydantic-ai's exceptions as ours; nothing of it gets past this door."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pydantic_ai import exceptions as theirs

from mastra_core.errors import (
    ConfigError,
    MastraError,
    ModelError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelOutputError,
    ModelTimeoutError,
)

__all__ = ("model_errors", "stream_cut")

#: The provider is busy, slow or broken; asking again may work.
_PASSING = (
    theirs.ModelRateLimitError,
    theirs.ModelUnavailableError,
    theirs.ModelServerError,
)


@contextmanager
def model_errors(model: str, *, key_names: Sequence[str] = ()) -> Iterator[None]:
    """
    Ask a provider; let only ``ModelError`` and ``ConfigError`` out.

    Args:
        model: ``provider/model``, for the message.
        key_names: Environment variables of the key, for who has a wrong one.
    """
    try:
        yield
    except MastraError:
        raise
    except theirs.UserError as exc:
        raise ConfigError(f"Model {model!r} can't be asked: {exc}") from exc
    except theirs.AgentRunError as exc:
        raise _translated(exc, model, key_names) from exc
    except TimeoutError as exc:
        raise ModelTimeoutError(model=model) from exc
    except Exception as exc:
        raise ModelError(f"Model {model!r} failed: {exc}", details={"model": model}) from exc


def stream_cut(model: str) -> ModelError:
    """The answer ended without its end: what came is not the whole of it."""
    return _may_pass(
        ModelError(
            f"The answer of model {model!r} broke off before its end.",
            id="MODEL_STREAM_CUT",
            details={"model": model},
        )
    )


def _translated(exc: theirs.AgentRunError, model: str, key_names: Sequence[str]) -> ModelError:
    match exc:
        case theirs.ModelHTTPError(status_code=404) | theirs.ModelNotFoundError():
            return ModelNotFoundError(
                f"The provider knows no model {model!r}: {_reason(exc)}", details={"model": model}
            )
        case theirs.ModelHTTPError():
            return _refused(exc, model, key_names)
        case theirs.ModelTimeoutError() | theirs.ModelRequestTimeout():
            return ModelTimeoutError(f"Model {model!r} didn't answer in time.", model=model)
        case (
            theirs.ModelConnectionError(in_stream=True) | theirs.ModelConnectionError(phase="read")
        ):
            return stream_cut(model)
        case theirs.ModelConnectionError():
            return _may_pass(
                ModelError(
                    f"The provider of model {model!r} can't be reached: {exc.message}",
                    id="MODEL_UNREACHABLE",
                    details={"model": model},
                )
            )
        case theirs.ModelAPIError():
            error = ModelError(
                f"The provider failed for model {model!r}: {_reason(exc)}",
                details={"model": model, **_names(exc)},
            )
            return _may_pass(error) if isinstance(exc, _PASSING) else error
        case theirs.UnexpectedModelBehavior():
            return ModelOutputError(f"Model {model!r} answered something unusable: {exc.message}")
        case _:
            return ModelError(f"Model {model!r} failed: {exc.message}", details={"model": model})


def _refused(exc: theirs.ModelHTTPError, model: str, key_names: Sequence[str]) -> ModelHTTPError:
    hint = None
    if isinstance(exc, theirs.ModelAuthenticationError) and key_names:
        hint = f"Check the key in {' or '.join(key_names)}."
    elif isinstance(exc, theirs.ModelContextWindowExceededError):
        hint = "Shorten the prompt, or show the model fewer messages."
    error = ModelHTTPError(
        f"The provider answered {exc.status_code} for model {model!r}: {_reason(exc)}",
        status=exc.status_code,
        retry_after=exc.retry_after,
        model=model,
        hint=hint,
        details=_names(exc),
    )
    if isinstance(exc, theirs.ModelQuotaExceededError):
        # No wait fills an account.
        error.retryable = False
    elif exc.provider_retry_hint is not None:
        error.retryable = exc.provider_retry_hint
    return error


def _may_pass(error: ModelError) -> ModelError:
    error.retryable = True
    return error


def _names(exc: theirs.ModelAPIError) -> dict[str, object]:
    """The provider's own names for what went wrong."""
    known = {"providerCode": exc.provider_error_code, "providerType": exc.provider_error_type}
    return {name: value for name, value in known.items() if value is not None}


def _reason(exc: theirs.AgentRunError) -> str:
    """The provider's own words, if it used any."""
    body = getattr(exc, "body", None)
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        if isinstance(inner, Mapping) and isinstance(inner.get("message"), str):
            return str(inner["message"])
    return str(body or exc.message)
