"""One model request: parts of the provider become chunks and parts of the message."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.isotime import to_iso_ms
from mastra_core.base.jsonjs import decode, sanitize_copy
from mastra_core.base.tasks import is_being_cancelled
from mastra_core.contracts.model import Model, ModelPart
from mastra_core.errors import (
    MastraError,
    ModelError,
    WireDecodeError,
    WireEncodeError,
    reason_of,
    shown,
    wire_from_error,
)
from mastra_core.loop.interrupt import RequestPreempted
from mastra_core.messages.from_output import ResponseWriter
from mastra_core.streaming.settle import TOKEN_COUNTS
from mastra_core.wire.chunks import RUN_CHUNKS, Chunk

__all__ = (
    "ModelStep",
    "StepCall",
    "StepResult",
    "parse_arguments",
)

#: Chunks that leave something in the message of the answer.
_RECORDED: Final = frozenset(
    {"text-delta", "reasoning-delta", "tool-call", "tool-result", "file", "source"}
)
_DELTAS: Final = frozenset({"text-delta", "reasoning-delta", "tool-input-delta"})
#: What no model can fail with: it stops more than a request.
_NOT_OURS: Final = (RequestPreempted, KeyboardInterrupt, GeneratorExit)


@dataclass(slots=True, kw_only=True)
class StepCall:
    """One tool call that the model made."""

    tool_call_id: str
    tool_name: str
    args: Any
    provider_executed: bool = False
    provider_metadata: Mapping[str, Any] | None = None

    def to_wire(self) -> dict[str, Any]:
        """As chunks and snapshots carry it."""
        wire: dict[str, Any] = {
            "toolCallId": self.tool_call_id,
            "toolName": self.tool_name,
            "args": self.args,
        }
        if self.provider_executed:
            wire["providerExecuted"] = True
        if self.provider_metadata is not None:
            wire["providerMetadata"] = dict(self.provider_metadata)
        return wire


@dataclass(slots=True, kw_only=True)
class StepResult:
    """What one request came to."""

    reason: str = "unknown"
    text: str = ""
    calls: list[StepCall] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    warnings: list[Any] = field(default_factory=list)
    error: BaseException | None = None
    has_output: bool = False
    provider_results: int = 0


class ModelStep:
    """Turns the parts of one answer into chunks; ``result`` is complete at the end."""

    def __init__(
        self,
        model: Model,
        *,
        run_id: str,
        writer: ResponseWriter,
        clock: Clock,
        ids: Ids,
        tells_all: bool = False,
        titles: Mapping[str, str] | None = None,
    ) -> None:
        self._model = model
        #: What people call the tools.
        self._titles = titles or {}
        #: Also yield ``response-metadata`` and ``finish``, for those who look at the stream.
        self._tells_all = tells_all
        self._run_id = run_id
        self._writer = writer
        self._clock = clock
        self._ids = ids
        #: The answer was given by a processor.
        self.is_replay = False
        self.result = StepResult(metadata=self._default_metadata(ids))
        self._text: list[str] = []
        #: Arguments that are still streaming: id -> (tool name, text so far).
        self._inputs: dict[str, tuple[str, list[str]]] = {}
        self._called: set[str] = set()
        self._started_at: int | None = None

    def _default_metadata(self, ids: Ids) -> dict[str, Any]:
        return {
            "id": ids.new("response"),
            "timestamp": to_iso_ms(self._clock.now()),
            "modelId": self._model.model_id,
            "modelMetadata": {
                "modelId": self._model.model_id,
                "modelVersion": getattr(self._model, "specification", "v2"),
                "modelProvider": self._model.provider,
            },
        }

    def _chunk(self, kind: str, payload: Mapping[str, Any]) -> Chunk:
        return {"type": kind, "runId": self._run_id, "from": "AGENT", "payload": dict(payload)}

    @property
    def was_answered(self) -> bool:
        """Has anything of the answer arrived?"""
        return self._started_at is not None

    def start_chunk(self) -> Chunk:
        """The ``step-start`` chunk; sent once, with the first part or the failure."""
        self._started_at = self._clock.now_ms()
        return self._chunk(
            "step-start",
            {
                "warnings": self.result.warnings,
                "messageId": self._writer.message_id,
                "startedAt": self._started_at,
            },
        )

    async def chunks(self, parts: AsyncIterator[ModelPart]) -> AsyncGenerator[Chunk, None]:
        """
        The chunks of the answer, ``step-start`` first.

        Raises:
            MastraError: The provider failed, before or in mid-stream.
        """
        try:
            async for given in parts:
                part = _own_part(given)
                if part["type"] == "stream-start":
                    self.result.warnings = list(part.get("warnings") or ())
                    continue
                if self._started_at is None:
                    yield self.start_chunk()
                for chunk in self._convert(part):
                    yield chunk
        except WireEncodeError as exc:
            raise self._failed(exc) from exc
        except MastraError:
            raise
        except asyncio.CancelledError as exc:
            # Something that the provider waited for was cancelled; the run itself was not.
            if is_being_cancelled():
                raise
            raise self._failed(exc) from exc
        except _NOT_OURS:
            raise
        except BaseException as exc:
            raise self._failed(exc) from exc
        finally:
            self.result.text = "".join(self._text)
            self._writer.finish_step()
        if self._started_at is None:
            yield self.start_chunk()

    def _failed(self, error: BaseException) -> ModelError:
        model = f"{self._model.provider}/{self._model.model_id}"
        return ModelError(f"Model {model} failed: {reason_of(error)}")

    def _convert(self, part: ModelPart) -> list[Chunk]:
        kind: str = part["type"]
        extra = _metadata(part)
        match kind:
            case "text-delta":
                return [self._chunk(kind, {"id": part["id"], "text": part["delta"], **extra})]
            case "text-start":
                return [self._chunk(kind, {"id": part["id"], **extra})]
            case "text-end":
                return [self._chunk(kind, {"type": kind, "id": part["id"], **extra})]
            case "reasoning-delta":
                return [self._chunk(kind, {"id": part["id"], "text": part["delta"], **extra})]
            case "reasoning-start" | "reasoning-end":
                return [self._chunk(kind, {"id": part["id"], **extra})]
            case "tool-input-start":
                return [self._open_input(part, extra)]
            case "tool-input-delta":
                return [self._extend_input(part, extra)]
            case "tool-input-end":
                return self._close_input(part, extra)
            case "tool-call":
                return self._call(part, extra)
            case "tool-result":
                return [self._provider_result(part, extra)]
            case "file":
                return [self._file(part, extra)]
            case "source":
                return [self._source(part, extra)]
            case "response-metadata":
                self._note_response(part)
                facts = {k: v for k, v in part.items() if k != "type"}
                return [self._chunk(kind, facts)] if self._tells_all else []
            case "finish":
                return self._finish(part)
            case "error":
                raise _as_error(part.get("error"))
            case "raw":
                return [self._chunk("raw", {"rawValue": part.get("rawValue")})]
            case _ if kind in RUN_CHUNKS:
                raise ValueError(f"a model can't say {kind!r}")
            case _:
                return [{**part, "runId": self._run_id, "from": "AGENT"}]

    # -- tool calls -----------------------------------------------------------------------

    def _open_input(self, part: ModelPart, extra: dict[str, Any]) -> Chunk:
        call_id, name = str(part["id"]), str(part["toolName"])
        self._inputs[call_id] = (name, [])
        payload = {"toolCallId": call_id, "toolName": name, **extra}
        if part.get("providerExecuted") is not None:
            payload["providerExecuted"] = part["providerExecuted"]
        if name in self._titles:
            payload["title"] = self._titles[name]
        return self._chunk("tool-call-input-streaming-start", payload)

    def _extend_input(self, part: ModelPart, extra: dict[str, Any]) -> Chunk:
        call_id = str(part["id"])
        name, texts = self._inputs.setdefault(call_id, ("", []))
        texts.append(part["delta"])
        payload = {"argsTextDelta": part["delta"], "toolCallId": call_id, **extra}
        if name:
            payload["toolName"] = name
        return self._chunk("tool-call-delta", payload)

    def _close_input(self, part: ModelPart, extra: dict[str, Any]) -> list[Chunk]:
        call_id = str(part["id"])
        end = self._chunk("tool-call-input-streaming-end", {"toolCallId": call_id, **extra})
        if call_id not in self._inputs or call_id in self._called:
            return [end]
        name, texts = self._inputs[call_id]
        return [end, self._make_call(call_id, name, parse_arguments("".join(texts)), part, extra)]

    def _call(self, part: ModelPart, extra: dict[str, Any]) -> list[Chunk]:
        # Some servers give no id; without one nobody could answer the call.
        call_id = str(part["toolCallId"] or self._ids.new("tool-call"))
        args = parse_arguments(part.get("input", part.get("args")))
        if call_id in self._called:
            # Made from streamed arguments already; the provider's repetition only fills gaps.
            for call in self.result.calls:
                if call.tool_call_id == call_id and not call.args and args:
                    call.args = args
                    self._writer.settle_call(call_id, args=args)
            return []
        return [self._make_call(call_id, str(part["toolName"]), args, part, extra)]

    def _make_call(
        self, call_id: str, name: str, args: Any, part: ModelPart, extra: dict[str, Any]
    ) -> Chunk:
        self._called.add(call_id)
        executed = part.get("providerExecuted")
        payload = {"toolCallId": call_id, "toolName": name, "args": args, **extra}
        if executed is not None:
            payload["providerExecuted"] = executed
        if name in self._titles:
            payload["title"] = self._titles[name]
        return self._chunk("tool-call", payload)

    def _provider_result(self, part: ModelPart, extra: dict[str, Any]) -> Chunk:
        call_id = str(part["toolCallId"])
        return self._chunk(
            "tool-result",
            {
                "toolCallId": call_id,
                "toolName": part.get("toolName"),
                "result": part.get("result"),
                "providerExecuted": True,
                **extra,
            },
        )

    # -- the rest -------------------------------------------------------------------------

    def _file(self, part: ModelPart, extra: dict[str, Any]) -> Chunk:
        data = part.get("data", "")
        if isinstance(data, bytes | bytearray):
            data = base64.b64encode(bytes(data)).decode("ascii")
        media_type = part.get("mediaType", part.get("mimeType", ""))
        return self._chunk("file", {"data": data, "base64": data, "mimeType": media_type, **extra})

    def _source(self, part: ModelPart, extra: dict[str, Any]) -> Chunk:
        source = {k: v for k, v in part.items() if k not in ("type", "providerMetadata")}
        return self._chunk("source", {"title": "", **source, **extra})

    def _note_response(self, part: ModelPart) -> None:
        metadata = self.result.metadata
        for name in ("id", "modelId", "headers"):
            if part.get(name) is not None:
                metadata[name] = part[name]
        stamp = part.get("timestamp")
        if stamp is not None:
            metadata["timestamp"] = stamp if isinstance(stamp, str) else to_iso_ms(stamp)
        if "providerMetadata" in part:
            metadata["providerMetadata"] = part["providerMetadata"]

    def _finish(self, part: ModelPart) -> list[Chunk]:
        self.result.reason = str(part.get("finishReason") or "unknown")
        usage = _usage(part.get("usage"))
        self.result.usage = usage
        if part.get("providerMetadata") is not None:
            self.result.metadata["providerMetadata"] = part["providerMetadata"]
        if not self._tells_all or self.result.reason == "tool-calls":
            return []
        payload = {
            "stepResult": {"reason": self.result.reason},
            "output": {"usage": usage},
            "metadata": self.result.metadata,
        }
        return [self._chunk("finish", payload)]

    # -- what counts ----------------------------------------------------------------------

    def record(self, chunk: Chunk) -> None:
        """Take a chunk, as processors let it pass, into the answer and its message."""
        kind = chunk["type"]
        if kind not in _RECORDED:
            return
        payload = chunk["payload"]
        metadata = payload.get("providerMetadata")
        self.result.has_output = True
        match kind:
            case "text-delta":
                self._text.append(payload["text"])
                self._writer.text(str(payload["id"]), payload["text"], metadata)
            case "reasoning-delta":
                self._writer.reasoning(str(payload["id"]), payload["text"], metadata)
            case "tool-call":
                self._record_call(payload, metadata)
            case "tool-result":
                self.result.provider_results += 1
                self._writer.settle_call(
                    payload["toolCallId"], state="result", result=payload.get("result")
                )
            case "file":
                part = {"data": payload["data"], "mimeType": payload["mimeType"]}
                self._writer.part({"type": "file", **part})
            case _:
                source = {k: v for k, v in payload.items() if k != "providerMetadata"}
                if not source.get("title"):
                    source.pop("title", None)
                self._writer.part({"type": "source", "source": source})

    def _record_call(self, payload: Mapping[str, Any], metadata: Any) -> None:
        executed = payload.get("providerExecuted")
        self.result.calls.append(
            StepCall(
                tool_call_id=payload["toolCallId"],
                tool_name=payload["toolName"],
                args=payload["args"],
                provider_executed=bool(executed),
                provider_metadata=metadata,
            )
        )
        self._writer.call(
            payload["toolCallId"],
            payload["toolName"],
            payload["args"],
            provider_executed=executed,
            metadata=metadata,
            title=payload.get("title"),
        )

    def replay(self, chunks: Iterable[Mapping[str, Any]]) -> Iterator[Chunk]:
        """The chunks of an answer that was given before, instead of a model's."""
        self._started_at = self._clock.now_ms()
        for given in chunks:
            kind, payload = str(given["type"]), dict(given.get("payload") or {})
            if kind == "finish":
                self.result.reason = str((payload.get("stepResult") or {}).get("reason") or "stop")
                self.result.usage = dict((payload.get("output") or {}).get("usage") or {})
                self.result.metadata.update(payload.get("metadata") or {})
                continue
            if kind == "response-metadata":
                continue
            if kind == "step-start":
                payload["messageId"] = self._writer.message_id
                payload.pop("startedAt", None)
            chunk = self._chunk(kind, payload)
            self.record(chunk)
            yield chunk
        self.result.text = "".join(self._text)
        self._writer.finish_step()

    def failure_chunk(self, error: BaseException) -> Chunk:
        """The terminal ``error`` chunk of this run."""
        return self._chunk("error", {"type": "error", "error": wire_from_error(error)})


def _own_part(part: ModelPart) -> ModelPart:
    """
    The part as a store would give it back: what can't be stored fails the model that said it,
    not the thread that was to keep it.
    """
    kind = part["type"]
    if kind in _DELTAS:
        if not isinstance(part["delta"], str):
            raise TypeError(f"a {kind} is no text: {shown(part['delta'])}")
        if "providerMetadata" not in part:
            return part
    if not isinstance(kind, str):
        raise TypeError(f"a part has the type {shown(kind)}")
    if kind in ("error", "raw"):
        return part
    copied: ModelPart = sanitize_copy(part, lenient=True)
    return copied


def _usage(said: object) -> dict[str, Any]:
    """What a request used; a count that is none is left out, and stands in ``raw`` as it came."""
    if not isinstance(said, Mapping) or not said:
        return {}
    usage = {
        name: count
        for name, count in said.items()
        if name not in TOKEN_COUNTS or (isinstance(count, int) and not isinstance(count, bool))
    }
    return {**usage, "raw": usage.get("raw", dict(said))}


def _metadata(part: ModelPart) -> dict[str, Any]:
    metadata = part.get("providerMetadata")
    return {} if metadata is None else {"providerMetadata": metadata}


def parse_arguments(value: Any) -> Any:
    """Arguments as the model wrote them; malformed JSON is an empty object."""
    if not isinstance(value, str):
        return {} if value is None else value
    if not value.strip():
        return {}
    try:
        return decode(value)
    except WireDecodeError:
        return {}


def _as_error(error: object) -> BaseException:
    if isinstance(error, MastraError):
        return error
    if isinstance(error, BaseException):
        raised = ModelError(reason_of(error))
        raised.__cause__ = error
        return raised
    if isinstance(error, Mapping) and "message" in error:
        return ModelError(str(error["message"]))
    return ModelError(str(error))
