"""
The process that second processes are forked from; ``starting`` starts it.

It imports once what they all need, which takes most of a second, and then does nothing but fork
and tell how its children ended. Standard input names the modules; descriptor ``argv[1]`` is the
socket on which ``starting`` asks.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from typing import Final

from mastra_conformance.processes import child

__all__ = ("FORK", "main")

FORK: Final = b"f"
"""Asks for a child; comes with its standard input, output and error, and a socket for its end."""

_STREAMS: Final = 3


class _Child(BaseException):
    """Unwinds the loop in a process that was forked in it."""


class _Forker:
    """Forks when it is asked, until nobody can ask any more."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        #: Process id → where its end is told.
        self._ends: dict[int, socket.socket] = {}
        self._woken, self._wakes = socket.socketpair()
        self._wakes.setblocking(False)

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakes.fileno())
        while True:
            ready, _, _ = select.select([self._control, self._woken], [], [])
            if self._woken in ready:
                self._woken.recv(4096)
                self._tell_ends()
            if self._control in ready:
                message, descriptors, _, _ = socket.recv_fds(self._control, 1, _STREAMS + 1)
                if message != FORK:
                    return
                self._fork(descriptors)

    def _fork(self, descriptors: list[int]) -> None:
        pid = os.fork()
        if pid == 0:
            self._become_child(descriptors)
            raise _Child
        *streams, end = descriptors
        for descriptor in streams:
            os.close(descriptor)
        self._ends[pid] = socket.socket(fileno=end)
        self._tell(pid, pid)

    def _become_child(self, descriptors: list[int]) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for used in (self._control, self._woken, self._wakes, *self._ends.values()):
            used.close()
        for number, descriptor in enumerate(descriptors[:_STREAMS]):
            os.dup2(descriptor, number)
        for descriptor in descriptors:
            os.close(descriptor)
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)

    def _tell_ends(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                self._tell(pid, os.waitstatus_to_exitcode(status))
                self._ends.pop(pid).close()

    def _tell(self, pid: int, number: int) -> None:
        with suppress(OSError):  # whoever wanted to know may be gone
            self._ends[pid].sendall(f"{number}\n".encode())


def main() -> None:
    """Import, then fork until the other end of the socket is closed."""
    for module in json.load(sys.stdin):
        with suppress(Exception):  # whoever needs it will import it again, and see why
            import_module(module)
    try:
        _Forker(socket.socket(fileno=int(sys.argv[1]))).serve()
    except _Child:
        pass
    else:
        return
    child.main()
