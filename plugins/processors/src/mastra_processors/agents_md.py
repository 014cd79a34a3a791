"""Instruction files of the folders in which the agent works, told when it gets there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from pydantic import Field

from mastra_core.messages.message_list import MessageList
from mastra_core.processors import ProcessorArgs
from mastra_processors.built_in import BuiltIn
from mastra_processors.options import Options
from mastra_processors.tokens import cut_to_tokens, estimate_tokens

__all__ = ("AgentsMDInjector", "AgentsMDInjectorOptions", "InstructionReader", "LocalReader")

#: What the signal says it is; the TypeScript system looks for the same word.
_KIND: Final = "dynamic-agents-md"
_FILES: Final = ("AGENTS.md", "CLAUDE.md", "CONTEXT.md")
#: Names of arguments that hold paths, or lists of them.
_PATH_WORDS: Final = ("path", "file", "dir", "folder", "cwd")
_MAX_DEPTH: Final = 4
_MAX_BYTES: Final = 1_000_000


class InstructionReader(Protocol):
    """Where instruction files are found and read; may be something else than this disk."""

    def is_file(self, path: Path) -> bool:
        """Whether there is such a file."""
        ...

    def is_dir(self, path: Path) -> bool:
        """Whether there is such a folder."""
        ...

    def read(self, path: Path) -> str:
        """The text of a file; may raise ``OSError``."""
        ...

    def identity(self, path: Path) -> str:
        """The same for all names of one file."""
        ...


class LocalReader:
    """Files of this machine, below one folder: links that lead out of it are not followed."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def is_file(self, path: Path) -> bool:
        """Whether there is such a file below the root."""
        return path.is_file() and path.resolve().is_relative_to(self._root)

    def is_dir(self, path: Path) -> bool:
        """Whether there is such a folder."""
        return path.is_dir()

    def read(self, path: Path) -> str:
        """The text of a file, no more than a megabyte of it."""
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", errors="replace")

    def identity(self, path: Path) -> str:
        """The place that links lead to."""
        return str(path.resolve())


class AgentsMDInjectorOptions(Options):
    """Options of ``agents-md-injector``."""

    #: The folder that is worked in: relative paths start there, and nothing above it is read.
    root: Path = Field(default_factory=Path.cwd)
    #: Names of instruction files; of one folder, the first that is there counts.
    file_names: tuple[str, ...] = _FILES
    #: About how much of a file is told.
    max_tokens: int = Field(default=1000, gt=0)
    #: What is told of a file that is empty or can't be read; nothing if not given.
    reminder_text: str | None = None
    #: Files that the agent's instructions hold already.
    ignored: tuple[Path, ...] = ()
    #: ``(args) -> bool``: whether files of this run may be trusted at all.
    is_enabled: Callable[[ProcessorArgs], bool] | None = None
    #: ``(args) -> reader | None``: reads for this run, for instance from a trusted revision.
    get_reader: Callable[[ProcessorArgs], InstructionReader | None] | None = None


class AgentsMDInjector(BuiltIn[AgentsMDInjectorOptions]):
    """
    Tells the model about an ``AGENTS.md`` once it has touched a folder below it.

    Before each step it looks at the arguments of finished tool calls, newest first, and tells
    one new file as a reactive signal. The signal is stored with the thread, so a file is told
    once per thread. What such a file says, the model may do: ``is_enabled`` and ``get_reader``
    are there for folders that you don't trust.
    """

    id = "agents-md-injector"
    options_type: ClassVar[type[Options]] = AgentsMDInjectorOptions

    async def process_input_step(self, args: ProcessorArgs) -> None:
        """Hook 2."""
        enabled = self.options.is_enabled
        if enabled is not None and not enabled(args):
            return
        reader = self._reader(args)
        paths = list(_touched(args.message_list))
        if not paths:
            return
        told = _told(args.message_list)
        # Files are looked for on a disk that may be slow.
        found = await asyncio.to_thread(self._find, reader, paths, told)
        if found is None:
            return
        path, text = found
        assert args.send_signal is not None
        await args.send_signal(
            {
                "type": "reactive",
                "contents": text,
                "attributes": {"type": _KIND, "path": str(path)},
                "metadata": {"path": str(path)},
            }
        )

    def _reader(self, args: ProcessorArgs) -> InstructionReader:
        chosen = self.options.get_reader(args) if self.options.get_reader is not None else None
        return chosen or LocalReader(self.options.root)

    def _find(
        self, reader: InstructionReader, paths: Iterable[str], told: Iterable[str]
    ) -> tuple[Path, str] | None:
        """The first file that wasn't told yet, and what is told of it."""
        known = {
            reader.identity(self._absolute(str(path))) for path in (*told, *self.options.ignored)
        }
        for candidate in self._candidates(reader, paths):
            if (identity := reader.identity(candidate)) in known:
                continue
            known.add(identity)
            if text := self._text(reader, candidate):
                return candidate, text
        return None

    def _candidates(self, reader: InstructionReader, paths: Iterable[str]) -> Iterator[Path]:
        root = self._absolute(".")
        seen: set[Path] = set()
        for given in paths:
            place = self._absolute(given)
            if not place.is_relative_to(root):
                continue
            folder = place if reader.is_dir(place) else place.parent
            while folder.is_relative_to(root) and folder not in seen:
                seen.add(folder)
                for name in self.options.file_names:
                    if reader.is_file(folder / name):
                        yield folder / name
                        break
                folder = folder.parent

    def _absolute(self, path: str) -> Path:
        """Without dots, but with links as they are named."""
        return Path(os.path.normpath(self.options.root.absolute() / path))

    def _text(self, reader: InstructionReader, path: Path) -> str | None:
        try:
            text = reader.read(path).strip()
        except OSError:
            text = ""
        if not text:
            return self.options.reminder_text
        return cut_to_tokens(text, self.options.max_tokens, estimate_tokens)


def _touched(messages: MessageList) -> Iterator[str]:
    """Paths in the arguments of finished calls, newest call first."""
    for message in reversed(messages.messages):
        if message.role != "assistant":
            continue
        for part in reversed(message.parts):
            if part.get("type") != "tool-invocation":
                continue
            invocation = part["toolInvocation"]
            if invocation.get("state") == "result":
                yield from _paths(invocation.get("args"), depth=0)


def _paths(value: Any, *, depth: int, is_path: bool = False) -> Iterator[str]:
    match value:
        case str() if is_path and value and "\n" not in value and "\0" not in value:
            yield value.removeprefix("file://")
        case Mapping() if depth < _MAX_DEPTH:
            for name, inner in value.items():
                named = any(word in str(name).lower() for word in _PATH_WORDS)
                yield from _paths(inner, depth=depth + 1, is_path=named)
        case list() if depth < _MAX_DEPTH:
            for inner in value:
                yield from _paths(inner, depth=depth + 1, is_path=is_path)
        case _:
            pass


def _told(messages: MessageList) -> Iterator[str]:
    """Paths of the files that the transcript holds already."""
    for message in messages.messages:
        signal = (message.content.get("metadata") or {}).get("signal")
        if message.role != "signal" or not isinstance(signal, Mapping):
            continue
        attributes = signal.get("attributes") or {}
        if attributes.get("type") == _KIND and isinstance(attributes.get("path"), str):
            yield attributes["path"]
