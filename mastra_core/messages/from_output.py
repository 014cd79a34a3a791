"""Put what a model streamed into its assistant message (streaming.md 10.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mastra_core.base.clock import Clock
from mastra_core.base.merging import laid_over
from mastra_core.messages.message_list import ListedMessage, MessageList

__all__ = ("ResponseWriter",)


class _Block(NamedTuple):
    """A text or a reasoning, word by word: adding to one long text would copy it every time."""

    part: dict[str, Any]
    pieces: list[str]

    def join(self) -> None:
        """Put the words into the part."""
        words = "".join(self.pieces)
        if self.part["type"] == "text":
            self.part["text"] = words
        else:
            self.part["reasoning"] = words
            self.part["details"] = [{"type": "text", "text": words}]


class ResponseWriter:
    """Writes parts into the current response message; the only writer of that message."""

    def __init__(
        self, messages: MessageList, *, clock: Clock, provider: str, model_id: str
    ) -> None:
        self._messages = messages
        self._clock = clock
        self._provider = provider
        self._model_id = model_id
        self.message_id = ""
        #: What the step that is streaming has brought, in order.
        self._streamed: list[dict[str, Any]] = []
        #: Its text and reasoning blocks that go on.
        self._open: dict[str, _Block] = {}
        #: All of its blocks; their words are joined at the end of the step.
        self._blocks: list[_Block] = []

    @property
    def thread_id(self) -> str | None:
        """The thread that the message belongs to."""
        return self._messages.thread_id

    @property
    def resource_id(self) -> str | None:
        """The resource that the message belongs to."""
        return self._messages.resource_id

    def use_model(self, provider: str, model_id: str) -> None:
        """Stamp what follows with another model."""
        self._provider = provider
        self._model_id = model_id

    def begin_step(self) -> None:
        """A further step under the same id is parted by a ``step-start``."""
        self._open.clear()
        self._blocks.clear()
        self._streamed.clear()
        message = self._messages.find(self.message_id)
        if message is not None and message.parts:
            message.parts.append(
                {
                    "type": "step-start",
                    "createdAt": self._clock.now_ms(),
                    "model": f"{self._provider}/{self._model_id}",
                }
            )
            message.saved = False

    def mark(self) -> int:
        """How many parts the message holds, to roll back to."""
        message = self._messages.find(self.message_id)
        return len(message.parts) if message is not None else 0

    def roll_back(self, mark: int) -> None:
        """Forget everything after ``mark``: a rejected attempt leaves no trace."""
        message = self._messages.find(self.message_id)
        if message is None:
            return
        del message.parts[mark:]
        if not message.parts:
            self._messages.remove(message.id)
        else:
            _mirror_text(message)

    def _target(self) -> ListedMessage:
        message = self._messages.response(self.message_id)
        if message.source == "response":
            metadata = message.metadata
            metadata.setdefault("modelId", self._model_id)
            metadata.setdefault("provider", self._provider)
        message.saved = False
        return message

    def text(self, block: str, delta: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Append to a text block; its part is made with the first delta."""
        opened = self._open.get(f"text:{block}") or self._begin("text", block)
        if metadata is not None:
            # Some providers sign a text at its end.
            opened.part["providerMetadata"] = dict(metadata)
        opened.pieces.append(delta)

    def reasoning(self, block: str, delta: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Append to a reasoning block."""
        opened = self._open.get(f"reasoning:{block}") or self._begin("reasoning", block)
        if metadata is not None:
            opened.part["providerMetadata"] = dict(metadata)
        opened.pieces.append(delta)

    def _begin(self, kind: str, block: str) -> _Block:
        """A block of the answer; its words are put in when the step is over."""
        part: dict[str, Any] = {"type": kind}
        part |= {"text": ""} if kind == "text" else {"reasoning": "", "details": []}
        opened = self._open[f"{kind}:{block}"] = _Block(part, [])
        self._blocks.append(opened)
        self._streamed.append(part)
        return opened

    def finish_step(self) -> None:
        """
        The step's stream is over: what it brought enters the message now.

        Message and parts are stamped here, so that input which arrived while the model spoke
        lies before the answer (decisions.md 35).
        """
        self._open.clear()
        for block in self._blocks:
            block.join()
        self._blocks.clear()
        if not self._streamed:
            return
        message = self._target()
        for part in self._streamed:
            message.parts.append({**part, "createdAt": self._clock.now_ms()})
        self._streamed.clear()
        _mirror_text(message)

    def part(self, part: Mapping[str, Any]) -> None:
        """Append one complete part."""
        self._streamed.append(dict(part))

    def error(self, name: str, text: str) -> None:
        """Record the end of an attempt; the message carries no model stamp of its own."""
        message = self._messages.response(self.message_id)
        message.parts.append(
            {
                "type": "error",
                "error": {"name": name, "message": text},
                "createdAt": self._clock.now_ms(),
            }
        )
        message.saved = False

    def call(
        self,
        tool_call_id: str,
        tool_name: str,
        args: Any,
        *,
        provider_executed: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
        title: str | None = None,
    ) -> None:
        """Append an open call."""
        part: dict[str, Any] = {
            "type": "tool-invocation",
            "toolInvocation": {
                "state": "call",
                "toolCallId": tool_call_id,
                "toolName": tool_name,
                "args": args,
            },
        }
        if provider_executed is not None:
            part["providerExecuted"] = provider_executed
        if title is not None:
            part["title"] = title
        if metadata is not None:
            part["providerMetadata"] = dict(metadata)
        self._streamed.append(part)

    def data_part(self, tool_call_id: str | None, part: Mapping[str, Any]) -> None:
        """Append a ``data-*`` part; it lies after the invocation that wrote it."""
        stored = {key: part[key] for key in ("type", "data") if key in part}
        stored["createdAt"] = self._clock.now_ms()
        holder = self._messages.find_call(tool_call_id) if tool_call_id else None
        if holder is None:
            self._target().parts.append(stored)
        else:
            holder.parts.append(stored)
            holder.saved = False

    def invocation(self, tool_call_id: str) -> Mapping[str, Any] | None:
        """The invocation of a call, as it stands in its message now; None if there is none."""
        holder = self._messages.find_call(tool_call_id)
        part = holder.find_call(tool_call_id) if holder is not None else None
        return None if part is None else part["toolInvocation"]

    def message_of(self, tool_call_id: str) -> ListedMessage | None:
        """The message that holds this call; None if there is none."""
        return self._messages.find_call(tool_call_id)

    def settle_call(
        self,
        tool_call_id: str,
        *,
        part_metadata: Mapping[str, Any] | None = None,
        **members: Any,
    ) -> None:
        """
        Change the invocation of a call, wherever its message is.

        ``members`` are wire names; the part loses its time stamp, as peers write it.
        ``part_metadata`` is added to the provider's metadata beside it.
        """
        for streamed in reversed(self._streamed):
            if (streamed.get("toolInvocation") or {}).get("toolCallId") == tool_call_id:
                streamed["toolInvocation"] = {**streamed["toolInvocation"], **members}
                return
        holder = self._messages.find_call(tool_call_id)
        if holder is None:
            return
        part = holder.find_call(tool_call_id)
        assert part is not None
        part["toolInvocation"] = {**part["toolInvocation"], **members}
        if part_metadata is not None:
            known = part.get("providerMetadata") or {}
            part["providerMetadata"] = {**known, **part_metadata}
            if "mastra" in known and "mastra" in part_metadata:
                part["providerMetadata"]["mastra"] = laid_over(
                    known["mastra"], part_metadata["mastra"]
                )
        part.pop("createdAt", None)
        holder.saved = False


def _mirror_text(message: ListedMessage) -> None:
    """Keep the text of the last step that has any beside the parts, as peers do."""
    steps: list[list[str]] = [[]]
    for part in message.parts:
        if part.get("type") == "step-start":
            steps.append([])
        elif part.get("type") == "text":
            steps[-1].append(part["text"])
    texts = next((step for step in reversed(steps) if step), None)
    if texts is None:
        message.content.pop("content", None)
    else:
        message.content["content"] = "\n".join(texts)
