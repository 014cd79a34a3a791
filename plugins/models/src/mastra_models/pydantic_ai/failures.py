"""pydantic-ai's exceptions as ours; nothing of it gets past this door."""

from __future__ import annotations

from collections.abc import Iterator
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

__all__ = ("model_errors",)


@contextmanager
def model_errors(model: str) -> Iterator[None]:
    """
    Ask a provider; let only ``ModelError`` and ``ConfigError`` out.

    Args:
        model: ``provider/model``, for the message.
    """
    try:
        yield
    except MastraError:
        raise
    except theirs.UserError as exc:
        raise ConfigError(f"Model {model!r} can't be asked: {exc}") from exc
    except theirs.AgentRunError as exc:
        raise _translated(exc, model) from exc
    except TimeoutError as exc:
        raise ModelTimeoutError(model=model) from exc
    except Exception as exc:
        raise ModelError(f"Model {model!r} failed: {exc}", details={"model": model}) from exc


def _translated(exc: theirs.AgentRunError, model: str) -> ModelError:
    match exc:
        case theirs.ModelHTTPError(status_code=404) | theirs.ModelNotFoundError():
            return ModelNotFoundError(
                f"The provider knows no model {model!r}.", details={"model": model}
            )
        case theirs.ModelHTTPError():
            return ModelHTTPError(
                f"The provider answered {exc.status_code} for model {model!r}: {_reason(exc)}",
                status=exc.status_code,
                retry_after=exc.retry_after,
                model=model,
            )
        case theirs.ModelTimeoutError() | theirs.ModelRequestTimeout():
            return ModelTimeoutError(f"Model {model!r} didn't answer in time.", model=model)
        case theirs.ModelConnectionError():
            error = ModelError(
                f"The provider of model {model!r} can't be reached: {exc.message}",
                id="MODEL_UNREACHABLE",
                details={"model": model},
            )
            error.retryable = True
            return error
        case theirs.UnexpectedModelBehavior():
            return ModelOutputError(f"Model {model!r} answered something unusable: {exc.message}")
        case _:
            return ModelError(f"Model {model!r} failed: {exc.message}", details={"model": model})


def _reason(exc: theirs.ModelHTTPError) -> str:
    """The provider's own words, if it used any."""
    body = exc.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        if isinstance(inner, dict) and isinstance(inner.get("message"), str):
            return str(inner["message"])
    return str(body or exc.message)
