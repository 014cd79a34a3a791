"""The Lua scripts of this package: one step at the server, whatever it has to look at.

Scripts lie beside this module as files. A server that doesn't know one yet is told its text
once; that it understood the same text is seen by the hash.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final

from redis.exceptions import NoPermissionError, NoScriptError, ResponseError

from mastra_core.errors import StorageDataError
from mastra_redis.link import Argument, Link, Reply

__all__ = ("NAMES", "Script", "Scripts", "script_named")

NAMES: Final[tuple[str, ...]] = (
    "bus_append",
    "bus_claim",
    "bus_clear",
    "bus_dead",
    "bus_extend",
    "bus_join",
    "bus_leave",
    "bus_read",
    "bus_requeue",
    "bus_settle",
    "cache_push",
    "commit",
    "fence_raise",
    "inbox_due",
    "inbox_page",
    "inbox_scopes",
    "lease_acquire",
    "lease_change",
    "lease_get",
    "memory_delete",
    "memory_get",
    "memory_move",
    "memory_page",
    "memory_resource",
    "memory_sync",
    "memory_write",
    "run_check",
    "run_delete",
    "run_index",
    "run_page",
    "run_suspended",
    "run_write",
    "schema_set",
    "state",
    "tasks_page",
    "threads_check",
    "threads_page",
)
"""Every script of this package."""

_INCLUDE: Final = re.compile(r"^--! include (\w+)$", re.MULTILINE)


class Script:
    """One script with the hash under which servers know it."""

    __slots__ = ("name", "sha", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text.encode()
        self.sha = hashlib.sha1(self.text).hexdigest()  # noqa: S324 - what Redis calls scripts by


@cache
def script_named(name: str) -> Script:
    """The script of this name, with what it includes put in."""
    folder = files("mastra_redis") / "scripts"

    def included(match: re.Match[str]) -> str:
        part = (folder / f"{match[1]}.lua").read_text("utf-8").rstrip()
        return _INCLUDE.sub(included, part)

    text = (folder / f"{name}.lua").read_text("utf-8")
    return Script(name, _INCLUDE.sub(included, text))


class Scripts:
    """Runs scripts over a link."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def load(self, names: Sequence[str] = NAMES) -> None:
        """
        Tell the server all scripts at once, so that no call has to.

        Raises:
            StorageDataError: The server understood another text than ours.
            RedisError: It refuses scripts.
        """
        scripts = [script_named(name) for name in names]
        try:
            told = await self._link.call_all(
                [("SCRIPT", "LOAD", script.text) for script in scripts], repeatable=True
            )
        except NoPermissionError:
            return  # then each is sent with its first call
        for script, sha in zip(scripts, told, strict=True):
            if sha != script.sha.encode():
                raise StorageDataError(
                    f"The server calls the script {script.name!r} {sha!r}, not {script.sha!r}.",
                    details={"script": script.name},
                )

    async def run(
        self,
        name: str,
        keys: Sequence[Argument] = (),
        args: Sequence[Argument] = (),
        *,
        repeatable: bool = False,
        moves: Sequence[tuple[bytes, bytes]] = (),
        puts: Sequence[tuple[bytes, bytes]] = (),
    ) -> Reply:
        """
        The result of a script.

        Args:
            name: Which one.
            keys: Keys that it touches, as far as the caller knows them.
            args: Everything else.
            repeatable: Running it twice does no harm.
            moves: Keys that the script may make, and where each is moved in the same step.
                A script's own writes would come back as news of a tracked key; a move is ours.
            puts: Keys with texts that are there before the script runs, in the same step; so a
                large text doesn't go through the script.
        """
        script = script_named(name)
        if moves:
            return await self._run_and_move(script, (len(keys), *keys, *args), moves, puts)
        try:
            return await self._link.send(
                ("EVALSHA", script.sha, len(keys), *keys, *args), repeatable=repeatable
            )
        except ResponseError as exc:
            if not _knows_not(exc):
                raise
            # The server was restarted or flushed its scripts; nothing was run.
            return await self._link.send(
                ("EVAL", script.text, len(keys), *keys, *args), repeatable=repeatable
            )

    async def _run_and_move(
        self,
        script: Script,
        body: tuple[Argument, ...],
        moves: Sequence[tuple[bytes, bytes]],
        puts: Sequence[tuple[bytes, bytes]],
    ) -> Reply:
        before = [("SET", key, text) for key, text in puts]
        behind = [("RENAME", source, target) for source, target in moves]
        place = len(before)
        replies = await self._link.send_transaction(
            [*before, ("EVALSHA", script.sha, *body), *behind]
        )
        if _knows_not(replies[place]):
            replies = await self._link.send_transaction(
                [*before, ("EVAL", script.text, *body), *behind]
            )
        if isinstance(replies[place], Exception):
            raise replies[place]
        # A move without a source is none: the script decided to write nothing.
        return replies[place]


def _knows_not(reply: Reply) -> bool:
    """Whether the server has no such script; the driver takes the code off some answers."""
    return isinstance(reply, NoScriptError) or (
        isinstance(reply, ResponseError) and str(reply).startswith("NOSCRIPT")
    )
