"""Names of keys, and members of sorted sets that sort as tuples do.

Keys of records are those of the TypeScript system where it has them; everything else starts
with ``mastra_py_``. Parts go into keys as they are: Redis takes any bytes, and nothing here
is ever a pattern.
"""

from __future__ import annotations

from typing import Final

from mastra_core.wire import tables

__all__ = (
    "Keys",
    "escape_pattern",
    "fence_key",
    "join",
    "name_in_thread",
    "raw",
    "sibling_key",
    "split",
    "text",
)

#: Ends a part; inside of a part NUL is followed by 0xFF, so that shorter sorts first.
_END: Final = b"\x00\x01"
_NUL: Final = b"\x00\xff"


def raw(value: str) -> bytes:
    """The bytes of a name; a lone surrogate keeps bytes of its own."""
    return value.encode("utf-8", "surrogatepass")


def text(value: bytes) -> str:
    """The name of these bytes."""
    return value.decode("utf-8", "surrogatepass")


def join(*parts: str) -> bytes:
    """Several names as one member, which sorts as the tuple of them."""
    # Almost no name holds a NUL.
    return b"".join([raw(part).replace(b"\x00", _NUL) + _END for part in parts])


def split(member: bytes) -> list[str]:
    """The names of a joined member."""
    return [text(part.replace(_NUL, b"\x00")) for part in member.split(_END)[:-1]]


def escape_pattern(value: bytes) -> bytes:
    """The bytes as a glob pattern that matches exactly them."""
    for special in (b"\\", b"*", b"?", b"[", b"]"):
        value = value.replace(special, b"\\" + special)
    return value


def name_in_thread(thread_id: str, name: str) -> bytes:
    """The end of a key of ours: the thread without colons, so that no two keys are one."""
    thread = raw(thread_id)
    if b"%" in thread or b":" in thread:
        thread = thread.replace(b"%", b"%25").replace(b":", b"%3A")
    return thread + b":id:" + raw(name)


def sibling_key(key: bytes) -> bytes:
    """
    The beginning of keys that belong to ``key`` (pubsub_and_lease.md 9.1).

    A cluster would keep them in one slot, except for keys with braces that it reads otherwise.
    """
    start = key.find(b"{")
    end = key.find(b"}", start + 1) if start >= 0 else -1
    return key if end > start + 1 else b"{" + key + b"}"


def fence_key(lease_key: bytes) -> bytes:
    """Where the fence of a lease is kept (pubsub_and_lease.md 9.1)."""
    return sibling_key(lease_key) + b":fence"


class Keys:
    """Keys of one store; ``prefix`` stands before all of them."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix: bytes = raw(prefix)
        p = self.prefix
        # -- shared with the TypeScript system
        self.threads: bytes = p + raw(f"{tables.THREADS}:id:")
        self.messages: bytes = p + raw(f"{tables.MESSAGES}:threadId:")
        self.message_threads: bytes = p + b"msg-idx:"
        self.resources: bytes = p + raw(f"{tables.RESOURCES}:")
        self.snapshot_family: bytes = p + raw(f"{tables.WORKFLOW_SNAPSHOTS}:")
        self.snapshots: bytes = p + raw(
            f"{tables.WORKFLOW_SNAPSHOTS}:namespace:workflows:workflow_name:"
        )
        # -- records that only we have
        self.notifications: bytes = p + raw(f"{tables.NOTIFICATIONS}:threadId:")
        self.sidecars: bytes = p + raw(f"{tables.NOTIFICATION_CLAIMS}:threadId:")
        self.fences: bytes = p + raw(f"{tables.FENCES}:")
        self.states: bytes = p + raw(f"{tables.THREAD_STATE}:threadId:")
        self.tasks: bytes = p + raw(f"{tables.BACKGROUND_TASKS}:id:")
        self.schedules: bytes = p + raw(f"{tables.SCHEDULES}:id:")
        self.triggers: bytes = p + raw(f"{tables.SCHEDULE_TRIGGERS}:id:")
        # -- our indexes
        self.memory: bytes = p + b"mastra_py_memory:"
        self.runs: bytes = p + b"mastra_py_runs:"
        self.inbox: bytes = p + b"mastra_py_inbox:"
        self.task_index: bytes = p + b"mastra_py_tasks:"
        self.schedule_index: bytes = p + b"mastra_py_schedules:"
        self.schema: bytes = p + raw(tables.SCHEMA_VERSIONS)

    # -- memory --------------------------------------------------------------------------------

    def thread(self, thread_id: str) -> bytes:
        """The record of a thread."""
        return self.threads + raw(thread_id)

    def thread_messages(self, thread_id: str) -> bytes:
        """Ids of a thread's messages by time."""
        return self.prefix + b"thread:" + raw(thread_id) + b":messages"

    def message(self, thread_id: str, message_id: str) -> bytes:
        """The record of a message."""
        return self.messages + raw(thread_id) + b":id:" + raw(message_id)

    def message_thread(self, message_id: str) -> bytes:
        """The thread of a message."""
        return self.message_threads + raw(message_id)

    def resource(self, resource_id: str) -> bytes:
        """The record of a resource."""
        return self.resources + raw(resource_id)

    def fence(self, lease_key: str) -> bytes:
        """The newest fence that a guarded write carried."""
        return self.fences + raw(lease_key)

    # -- runs ----------------------------------------------------------------------------------

    def snapshot(self, workflow_name: str, run_id: str, resource_id: str | None = None) -> bytes:
        """The record of a run; with a resource, where Node puts what has one."""
        key = self.snapshots + raw(workflow_name) + b":run_id:" + raw(run_id)
        return key if resource_id is None else key + b":resourceId:" + raw(resource_id)

    # -- the inbox -----------------------------------------------------------------------------

    def notification(self, thread_id: str, notification_id: str) -> bytes:
        """The record of a notification."""
        return self.notifications + name_in_thread(thread_id, notification_id)

    def sidecar(self, thread_id: str, notification_id: str) -> bytes:
        """What we remember beside a notification."""
        return self.sidecars + name_in_thread(thread_id, notification_id)

    # -- the rest ------------------------------------------------------------------------------

    def state(self, thread_id: str) -> bytes:
        """All values of a thread."""
        return self.states + raw(thread_id)

    def task(self, task_id: str) -> bytes:
        """The record of a background task."""
        return self.tasks + raw(task_id)

    def schedule(self, schedule_id: str) -> bytes:
        """The record of a schedule."""
        return self.schedules + raw(schedule_id)

    def trigger(self, trigger_id: str) -> bytes:
        """The record of one firing."""
        return self.triggers + raw(trigger_id)

    def families(self) -> tuple[bytes, ...]:
        """What all keys of this store begin with."""
        p = self.prefix
        shared = (
            tables.THREADS,
            tables.MESSAGES,
            tables.RESOURCES,
            tables.WORKFLOW_SNAPSHOTS,
            tables.NOTIFICATIONS,
            tables.NOTIFICATION_CLAIMS,
            tables.FENCES,
            tables.THREAD_STATE,
            tables.BACKGROUND_TASKS,
            tables.SCHEDULES,
            tables.SCHEDULE_TRIGGERS,
        )
        return tuple(p + raw(f"{name}:") for name in shared)

    def indexes(self) -> tuple[bytes, ...]:
        """What all keys of our indexes begin with."""
        return (self.memory, self.runs, self.inbox, self.task_index, self.schedule_index)
