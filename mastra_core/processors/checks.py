"""What hooks give back is what it should be, or the hook has failed (processors.md 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mastra_core.base.jsonjs import sanitize_copy
from mastra_core.errors import MastraError, ProcessorError, shown
from mastra_core.processors.arguments import StepPatch
from mastra_core.wire.chunks import RUN_CHUNKS, Chunk

__all__ = (
    "CALL_CHUNKS",
    "check_patch",
    "checked_prompt",
    "checked_response",
    "chunk_fault",
    "kept",
)

#: Of what a run says about itself, processors may hold back and change what is about calls.
CALL_CHUNKS: Final = frozenset({"tool-call", "tool-result", "tool-error", "tool-output-denied"})


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_model(value: object) -> bool:
    return isinstance(value, str) or callable(getattr(value, "stream", None))


def _are_tools(value: object) -> bool:
    tools: Any = value.values() if isinstance(value, Mapping) else value
    if not isinstance(value, Mapping) and not _is_list(value):
        return False
    return all(
        isinstance(getattr(tool, "id", None), str) and hasattr(tool, "parse_input")
        for tool in tools
    )


def _are_names(value: object) -> bool:
    return _is_list(value) and all(isinstance(name, str) for name in value)  # type: ignore[attr-defined]  # a sequence


#: What a member of a step must be, in words, and whether it is.
_STEP_MEMBERS: Final[Mapping[str, tuple[str, Callable[[object], bool]]]] = {
    "model": ("a model or the name of one", _is_model),
    "message_id": ("an id", _is_text),
    "tools": ("tools", _are_tools),
    "active_tools": ("names of tools", _are_names),
    "messages": ("a list of messages", _is_list),
    "system_messages": ("a list of messages", _is_list),
    "provider_options": ("a mapping", _is_mapping),
    "model_settings": ("a mapping", _is_mapping),
}
#: What a chunk must have that becomes part of an answer.
_PAYLOADS: Final[Mapping[str, tuple[str, ...]]] = {
    "text-delta": ("id", "text"),
    "reasoning-delta": ("id", "text"),
    "tool-call": ("toolCallId", "toolName", "args"),
    "tool-result": ("toolCallId",),
    "file": ("data", "mimeType"),
    "source": (),
    "tripwire": (),
}
#: Of what a run says about itself, a recorded answer has these.
_RECORDED: Final = frozenset({"step-start", "finish", "tool-call", "tool-result"})


def check_patch(patch: StepPatch, *, processor_id: str) -> None:
    """
    Refuse a step that can't be made.

    Raises:
        ProcessorError: A member is not what it should be.
    """
    for name, (what, is_right) in _STEP_MEMBERS.items():
        value = getattr(patch, name)
        if value is not None and not is_right(value):
            raise ProcessorError(
                processor_id=processor_id,
                phase="process_input_step",
                reason=f"{name} must be {what}, not {shown(value)}",
            )


def checked_prompt(prompt: object, *, processor_id: str) -> list[dict[str, Any]]:
    """
    A prompt that a hook puts in place of the run's.

    Raises:
        ProcessorError: It is none.
    """
    if isinstance(prompt, Sequence) and all(isinstance(turn, Mapping) for turn in prompt):
        return [dict(turn) for turn in prompt]
    raise _wrong_request(
        processor_id, f"a prompt is a list of {{role, content}}, not {shown(prompt)}"
    )


def checked_response(response: object, *, processor_id: str) -> Mapping[str, Any]:
    """
    An answer that a hook gives in place of the model, in values that can be stored.

    Raises:
        ProcessorError: It is none.
    """
    chunks = response.get("chunks") if isinstance(response, Mapping) else None
    if not isinstance(response, Mapping) or not isinstance(chunks, Sequence | None):
        raise _wrong_request(processor_id, f"a response is {{chunks}}, not {shown(response)}")
    own: list[Chunk] = []
    for chunk in chunks or ():
        fault = chunk_fault(chunk, allowed=_RECORDED)
        if fault is not None:
            raise _wrong_request(processor_id, f"a response has a chunk that {fault}")
        try:
            own.append(sanitize_copy(chunk, lenient=True))
        except MastraError as exc:
            raise _wrong_request(processor_id, exc.message) from exc
    return {**response, "chunks": own}


def _wrong_request(processor_id: str, reason: str) -> ProcessorError:
    return ProcessorError(processor_id=processor_id, phase="process_llm_request", reason=reason)


def chunk_fault(chunk: object, *, allowed: frozenset[str] = frozenset()) -> str | None:
    """
    Why this can't be streamed; None if it can.

    Args:
        chunk: What a hook made.
        allowed: What of the things that only a run says about itself it may say.
    """
    if not isinstance(chunk, dict) or not isinstance(kind := chunk.get("type"), str) or not kind:
        return f"is none: {shown(chunk)}"
    if kind in RUN_CHUNKS and kind not in allowed:
        return f"only the run may write: {kind!r}"
    needed = _PAYLOADS.get(kind)
    if needed is None:
        return None
    payload = chunk.get("payload")
    if not isinstance(payload, Mapping) or any(name not in payload for name in needed):
        return f"lacks a payload with {', '.join(needed) or 'members'}: {kind!r}"
    if "text" in needed and not isinstance(payload["text"], str):
        return f"has no text: {kind!r}"
    return None


def kept(chunk: Chunk) -> Chunk:
    """The chunk as it is now, whatever a hook does to it."""
    payload = chunk.get("payload")
    return {**chunk, "payload": dict(payload)} if isinstance(payload, dict) else dict(chunk)
