"""Threads and messages: what either side writes, the other reads member by member."""

from __future__ import annotations

from typing import Any

from mastra_conformance.node import NodePeer
from mastra_conformance.suites.interop.shared import (
    RESOURCE,
    THREAD,
    InteropSuite,
    at,
    same_values,
)
from mastra_core.contracts.storage import Storage
from mastra_core.wire.messages import Message
from mastra_core.wire.threads import Thread

__all__ = ("ThreadInteropSuite",)

_METADATA = {"tags": ["a", "ü", "𝄞"], "nested": {"n": 1.5, "none": None, "yes": True}}


class ThreadInteropSuite(InteropSuite):
    """Node's ``memory`` domain beside ours."""

    capabilities = ("memory",)

    async def test_a_thread_of_node_is_read_here(
        self, shared_store: Storage, node: NodePeer
    ) -> None:
        """With title, owner, times and metadata."""
        written = _node_thread()
        await node.store("memory", "saveThread", {"thread": written})

        read = await shared_store.memory.get_thread_by_id(THREAD)
        page = await shared_store.memory.list_threads(resource_id=RESOURCE)

        assert read is not None
        assert same_values(read, written)
        assert [THREAD] == [thread.id for thread in page.threads]

    async def test_a_thread_of_ours_is_read_by_node(
        self, shared_store: Storage, node: NodePeer
    ) -> None:
        """And listed for its owner."""
        written = Thread.model_validate(_node_thread())
        saved = await shared_store.memory.save_thread(written)

        read = await node.store("memory", "getThreadById", {"threadId": THREAD})
        page = await node.store("memory", "listThreads", {"filter": {"resourceId": RESOURCE}})

        assert same_values(saved, read)
        assert [THREAD] == [thread["id"] for thread in page["threads"]]

    async def test_both_change_one_thread(self, shared_store: Storage, node: NodePeer) -> None:
        """Node's change of the title and ours of the metadata are both there."""
        await node.store("memory", "saveThread", {"thread": _node_thread()})

        await shared_store.memory.update_thread(THREAD, metadata={"python": 1})
        changed = {"id": THREAD, "title": "renamed", "metadata": {"node": 2}}
        await node.store("memory", "updateThread", changed)
        read = await shared_store.memory.get_thread_by_id(THREAD)

        assert read is not None
        assert "renamed" == read.title
        assert {**_METADATA, "python": 1, "node": 2} == read.metadata

    async def test_messages_of_node_are_read_here(
        self, shared_store: Storage, node: NodePeer
    ) -> None:
        """In order, every part as it was."""
        await node.store("memory", "saveThread", {"thread": _node_thread()})
        written = _messages()
        await node.store("memory", "saveMessages", {"messages": written})

        page = await shared_store.memory.list_messages(THREAD, resource_id=RESOURCE)

        assert len(written) == len(page.messages)
        for message, theirs in zip(page.messages, written, strict=True):
            assert same_values(message, theirs)

    async def test_messages_of_ours_are_read_by_node(
        self, shared_store: Storage, node: NodePeer
    ) -> None:
        """In order, every part as it was."""
        await shared_store.memory.save_thread(Thread.model_validate(_node_thread()))
        ours = [Message.model_validate(row) for row in _messages()]
        await shared_store.memory.save_messages(ours)

        page = await node.store(
            "memory", "listMessages", {"threadId": THREAD, "resourceId": RESOURCE}
        )

        assert len(ours) == len(page["messages"])
        for message, theirs in zip(ours, page["messages"], strict=True):
            assert same_values(message, theirs)

    async def test_a_message_is_rewritten_by_both(
        self, shared_store: Storage, node: NodePeer
    ) -> None:
        """Saving under an id replaces the content, whoever did it first; there is one row."""
        await node.store("memory", "saveThread", {"thread": _node_thread()})
        [first, *_] = _messages()
        await node.store("memory", "saveMessages", {"messages": [first]})

        [read] = await shared_store.memory.list_messages_by_id([first["id"]])
        read.content["parts"].append({"type": "text", "text": "by Python"})
        await shared_store.memory.save_messages([read])
        page = await node.store("memory", "listMessages", {"threadId": THREAD})

        [message] = page["messages"]
        assert ["hello ü 𝄞", "by Python"] == [part["text"] for part in message["content"]["parts"]]

    async def test_a_thread_that_node_deletes_is_gone_here(
        self, shared_store: Storage, node: NodePeer
    ) -> None:
        """With its messages."""
        await shared_store.memory.save_thread(Thread.model_validate(_node_thread()))
        await shared_store.memory.save_messages([Message.model_validate(m) for m in _messages()])

        await node.store("memory", "deleteThread", {"threadId": THREAD})

        assert await shared_store.memory.get_thread_by_id(THREAD) is None
        page = await shared_store.memory.list_messages(THREAD)
        assert [] == page.messages

    async def test_a_thread_that_we_delete_is_gone_there(
        self, shared_store: Storage, node: NodePeer
    ) -> None:
        """With its messages."""
        await node.store("memory", "saveThread", {"thread": _node_thread()})
        await node.store("memory", "saveMessages", {"messages": _messages()})

        await shared_store.memory.delete_thread(THREAD)

        assert await node.store("memory", "getThreadById", {"threadId": THREAD}) is None
        page = await node.store("memory", "listMessages", {"threadId": THREAD})
        assert [] == page["messages"]


def _node_thread() -> dict[str, Any]:
    return {
        "id": THREAD,
        "resourceId": RESOURCE,
        "title": "Deploys",
        "metadata": _METADATA,
        "createdAt": at(0, 123),
        "updatedAt": at(1, 456),
    }


def _messages() -> list[dict[str, Any]]:
    common = {"threadId": THREAD, "resourceId": RESOURCE}
    call = {
        "state": "result",
        "step": 0,
        "toolCallId": "call_1",
        "toolName": "deploy",
        "args": {"env": "prod", "n": 1.25, "deep": {"list": [1, None, {"x": ""}]}},
        "result": {"deployed": True},
    }
    return [
        {
            **common,
            "id": "m1",
            "role": "user",
            "createdAt": at(2, 1),
            "content": {"format": 2, "parts": [{"type": "text", "text": "hello ü 𝄞"}]},
        },
        {
            **common,
            "id": "m2",
            "role": "assistant",
            "createdAt": at(2, 2),
            "content": {
                "format": 2,
                "parts": [
                    {"type": "step-start"},
                    {"type": "reasoning", "reasoning": "", "details": []},
                    {"type": "tool-invocation", "toolInvocation": call},
                    {"type": "text", "text": "done"},
                ],
                "content": "done",
                "metadata": {"modelId": "mock-1", "custom": {"k": [1, 2]}},
            },
        },
    ]
