"""Errors of what a run calls: tools, models, processors, background tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Unpack

from mastra_core.errors.base import Category, ErrorFields, MastraError, with_facts

__all__ = (
    "DuplicateProcessorError",
    "ModelError",
    "ModelHTTPError",
    "ModelNotFoundError",
    "ModelOutputError",
    "ModelTimeoutError",
    "ProcessorError",
    "ProcessorTimeoutError",
    "StructuredOutputError",
    "TaskCancelledError",
    "TaskError",
    "TaskLimitError",
    "TaskTimeoutError",
    "ToolError",
    "ToolFailedError",
    "ToolInputError",
    "ToolNotFoundError",
    "ToolTimeoutError",
    "TripwireError",
)


class ProcessorError(MastraError):
    """A processor raised; see the cause."""

    id = "PROCESSOR_FAILED"
    domain = "AGENT"
    category: Category = "USER"

    def __init__(
        self,
        message: str | None = None,
        *,
        processor_id: str = "",
        phase: str | None = None,
        reason: str | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        where = f" in {phase}" if phase else ""
        because = f": {reason}" if reason else "."
        super().__init__(
            message or f"Processor {processor_id!r} failed{where}{because}",
            **with_facts(fields, processor_id=processor_id, phase=phase, reason=reason),
        )


class TripwireError(ProcessorError):
    """A processor stopped the run on purpose."""

    id = "PROCESSOR_TRIPWIRE"
    http_status = 400

    def __init__(
        self,
        reason: str,
        *,
        processor_id: str = "",
        phase: str | None = None,
        retry: bool = False,
        metadata: Any = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        self.reason = reason
        self.processor_id = processor_id
        self.phase = phase
        self.retry = retry
        self.metadata = metadata
        super().__init__(
            reason,
            processor_id=processor_id,
            phase=phase,
            **with_facts(fields, retry=retry or None),
        )


class DuplicateProcessorError(ProcessorError):
    """Two processors of one chain have the same id."""

    id = "PROCESSOR_DUPLICATE_ID"

    def __init__(
        self,
        message: str | None = None,
        *,
        processor_id: str = "",
        phase: str | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message or f"Two processors have the id {processor_id!r}.",
            processor_id=processor_id,
            phase=phase,
            **fields,
        )


class ProcessorTimeoutError(ProcessorError, TimeoutError):
    """A processor took longer than allowed."""

    id = "PROCESSOR_TIMEOUT"
    http_status = 504

    def __init__(
        self,
        message: str | None = None,
        *,
        processor_id: str = "",
        phase: str | None = None,
        limit_ms: float | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message or f"Processor {processor_id!r} took longer than {_limit(limit_ms)}.",
            processor_id=processor_id,
            phase=phase,
            **with_facts(fields, limit_ms=limit_ms),
        )


class ToolError(MastraError):
    """A tool call can't be carried out."""

    id = "TOOL_ERROR"
    domain = "TOOL"
    category: Category = "USER"


class ToolNotFoundError(ToolError, LookupError):
    """The model called a tool that the agent doesn't have or doesn't show."""

    id = "TOOL_NOT_FOUND"
    http_status = 404

    def __init__(
        self,
        message: str | None = None,
        *,
        tool_name: str = "",
        available: Sequence[str] = (),
        **fields: Unpack[ErrorFields],
    ) -> None:
        names = list(available)
        listed = f" Available tools: {', '.join(names)}." if names else ""
        super().__init__(
            message or f"Tool {tool_name!r} was not found.{listed}",
            **with_facts(fields, tool_name=tool_name, available=names),
        )


class ToolInputError(ToolError, ValueError):
    """The arguments don't fit the tool's schema; the tool wasn't called."""

    id = "TOOL_INPUT_INVALID"
    http_status = 400

    def __init__(
        self,
        message: str | None = None,
        *,
        tool_name: str = "",
        reason: str | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        because = f": {reason}" if reason else "."
        super().__init__(
            message or f"The arguments of tool {tool_name!r} don't fit its schema{because}",
            **with_facts(fields, tool_name=tool_name, reason=reason),
        )


class ToolFailedError(ToolError):
    """The tool raised; see the cause."""

    id = "TOOL_EXECUTION_FAILED"

    def __init__(
        self,
        message: str | None = None,
        *,
        tool_name: str = "",
        tool_call_id: str | None = None,
        reason: str | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        because = f": {reason}" if reason else "."
        super().__init__(
            message or f"Tool {tool_name!r} failed{because}",
            **with_facts(fields, tool_name=tool_name, tool_call_id=tool_call_id, reason=reason),
        )


class ToolTimeoutError(ToolError, TimeoutError):
    """The tool took longer than allowed."""

    id = "TOOL_TIMEOUT"
    http_status = 504

    def __init__(
        self,
        message: str | None = None,
        *,
        tool_name: str = "",
        tool_call_id: str | None = None,
        limit_ms: float | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message or f"Tool {tool_name!r} took longer than {_limit(limit_ms)}.",
            **with_facts(fields, tool_name=tool_name, tool_call_id=tool_call_id, limit_ms=limit_ms),
        )


class ModelError(MastraError):
    """The language model or its provider failed."""

    id = "MODEL_ERROR"
    domain = "LLM"
    category: Category = "THIRD_PARTY"
    http_status = 502


class ModelNotFoundError(ModelError, LookupError):
    """No provider offers a model of this name."""

    id = "MODEL_NOT_FOUND"
    category: Category = "USER"
    http_status = 404

    def __init__(
        self,
        message: str | None = None,
        *,
        model: str = "",
        known: Sequence[str] = (),
        **fields: Unpack[ErrorFields],
    ) -> None:
        names = list(known)
        listed = f" Known providers: {', '.join(names)}." if names else ""
        super().__init__(
            message or f"No provider offers the model {model!r}.{listed}",
            **with_facts(fields, model=model, known=names),
        )


class ModelHTTPError(ModelError):
    """The provider answered with an error; ``retryable`` follows from the status."""

    id = "MODEL_HTTP_ERROR"

    def __init__(
        self,
        message: str | None = None,
        *,
        status: int = 0,
        retry_after: float | None = None,
        model: str | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        self.status = status
        #: Seconds the provider asks to wait; None when it didn't say.
        self.retry_after = retry_after
        self.retryable = status in _RETRYABLE_STATUSES
        of_model = f" for model {model!r}" if model else ""
        super().__init__(
            message or f"The provider answered {status}{of_model}.",
            **with_facts(fields, status=status, retry_after=retry_after, model=model),
        )


class ModelTimeoutError(ModelError, TimeoutError):
    """The model didn't answer in time."""

    id = "MODEL_TIMEOUT"
    retryable = True
    http_status = 504

    def __init__(
        self,
        message: str | None = None,
        *,
        model: str = "",
        limit_ms: float | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message or f"Model {model!r} didn't answer within {_limit(limit_ms)}.",
            **with_facts(fields, model=model, limit_ms=limit_ms),
        )


class ModelOutputError(ModelError):
    """The model answered something that can't be used."""

    id = "MODEL_OUTPUT_INVALID"


class StructuredOutputError(ModelOutputError):
    """The model's answer isn't the object that was asked for (streaming.md 5.7)."""

    id = "STRUCTURED_OUTPUT_SCHEMA_VALIDATION_FAILED"
    domain = "AGENT"
    category: Category = "SYSTEM"


class TaskError(MastraError):
    """A background task can't do what was asked."""

    id = "BACKGROUND_TASK_ERROR"
    domain = "AGENT"


class TaskTimeoutError(TaskError, TimeoutError):
    """A background task took longer than allowed."""

    id = "BACKGROUND_TASK_TIMEOUT"
    category: Category = "USER"
    http_status = 504

    def __init__(
        self,
        message: str | None = None,
        *,
        task_id: str = "",
        limit_ms: float | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message or f"Background task {task_id!r} took longer than {_limit(limit_ms)}.",
            **with_facts(fields, task_id=task_id, limit_ms=limit_ms),
        )


class TaskCancelledError(TaskError):
    """The background task was cancelled before it finished."""

    id = "BACKGROUND_TASK_CANCELLED"
    category: Category = "USER"
    http_status = 409

    def __init__(
        self, message: str | None = None, *, task_id: str = "", **fields: Unpack[ErrorFields]
    ) -> None:
        super().__init__(
            message or f"Background task {task_id!r} was cancelled.",
            **with_facts(fields, task_id=task_id),
        )


class TaskLimitError(TaskError):
    """Too many background tasks already run or wait."""

    id = "BACKGROUND_TASK_LIMIT"
    category: Category = "USER"
    http_status = 429

    def __init__(
        self, message: str | None = None, *, limit: int = 0, **fields: Unpack[ErrorFields]
    ) -> None:
        super().__init__(
            message or f"At most {limit} background tasks may run or wait.",
            **with_facts(fields, limit=limit),
        )


#: The provider is busy, slow or down; asking again later may work.
_RETRYABLE_STATUSES: Final = frozenset({408, 409, 425, 429, *range(500, 600)})


def _limit(limit_ms: float | None) -> str:
    return f"{limit_ms:g} ms" if limit_ms is not None else "its time limit"
