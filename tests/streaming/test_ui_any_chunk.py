"""Whatever a peer streams or stores, a page gets JSON and no exception."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mastra_core.base.jsonjs import encode
from mastra_core.errors import WireEncodeError
from mastra_core.messages.ui import ui_messages
from mastra_core.streaming.ui_stream import UiConverter
from mastra_core.wire.messages import Message

KINDS = (
    *("start", "finish", "step-start", "step-finish", "text-start", "text-delta", "text-end"),
    *("reasoning-start", "reasoning-delta", "source", "file", "tool-call", "tool-result"),
    *("tool-error", "tool-output", "tool-output-denied", "tool-call-approval", "tripwire"),
    *("tool-call-suspended", "tool-call-delta", "tool-call-input-streaming-start", "error"),
    *("object-result", "abort", "data-x", "workflow-start", "workflow-step-start", "made-up"),
    *("workflow-step-result", "workflow-step-suspended", "workflow-finish", "agent-execution-end"),
    *("routing-agent-start", "agent-execution-start", "tool-execution-start"),
    *("tool-execution-end", "agent-execution-suspended", "network-execution-event-finish"),
)
NAMES = (
    *("id", "messageId", "text", "toolCallId", "toolName", "args", "result", "error", "output"),
    *("stepResult", "metadata", "approval", "data", "mimeType", "sourceType", "reason", "name"),
    *("type", "from", "runId", "payload", "status", "agentId", "usage", "object", "warnings"),
)
PART_NAMES = (
    *("type", "text", "reasoning", "details", "toolInvocation", "state", "toolCallId", "args"),
    *("data", "mimeType", "source", "providerMetadata", "createdAt", "mastra", "approval"),
)

plain = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5)
sender = st.sampled_from(("AGENT", "WORKFLOW", "NETWORK", "USER"))


def trees(names: tuple[str, ...], kinds: tuple[str, ...]) -> st.SearchStrategy[Any]:
    words = plain | st.sampled_from(kinds)
    return st.recursive(
        words,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(names), inner, max_size=5)
        ),
        max_leaves=12,
    )


values = trees(NAMES, KINDS)
inner_chunks = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS), "from": sender, "runId": plain, "payload": values}
)
chunks = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS), "from": sender, "runId": plain},
    optional={
        "payload": values | st.fixed_dictionaries({"output": inner_chunks}),
        "data": values,
        "object": values,
    },
)


@given(
    streamed=st.lists(chunks, max_size=8),
    version=st.sampled_from(("v5", "v6", "v7")),
    source=st.sampled_from(("agent", "workflow", "network")),
)
def test_any_chunk_can_be_shown(streamed: list[Any], version: Any, source: Any) -> None:
    """Only data without data is refused, as the specification says."""
    converter = UiConverter(version=version, source=source, send_reasoning=True, send_sources=True)
    shown = converter.begin()
    for chunk in streamed:
        with suppress(WireEncodeError):
            shown += converter.convert(chunk)
    shown += converter.end()

    assert all(isinstance(one["type"], str) for one in shown)
    encode(shown)


KIND_OF_PARTS = (
    *("text", "reasoning", "file", "source", "source-document", "tool-invocation", "data-x"),
    *("step-start", "error", "made-up", "data-tool-call-approval"),
)
part_values = trees(PART_NAMES, KIND_OF_PARTS)
parts = st.dictionaries(st.sampled_from(PART_NAMES), part_values, max_size=6).map(
    lambda part: {"type": "text", **part}
)


@given(
    stored=st.lists(parts | part_values, max_size=4),
    metadata=st.dictionaries(
        st.sampled_from(("suspendedTools", "pendingToolApprovals", "signal")), part_values
    ),
    role=st.sampled_from(("user", "assistant", "signal", "system")),
    version=st.sampled_from(("v5", "v6")),
)
def test_any_stored_message_can_be_shown(
    stored: list[Any], metadata: dict[str, Any], role: str, version: Any
) -> None:
    """Rows of peers that did something else are no reason to show nothing."""
    message = Message(
        id="m1",
        role=role,
        created_at="2026-03-01T12:00:00.000Z",  # type: ignore[arg-type]  # as a row has it
        content={"format": 2, "parts": stored, "metadata": metadata},
    )

    encode(ui_messages([message], version=version, show_signals=True))
