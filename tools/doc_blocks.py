"""Run the code blocks of a Markdown page and compare what they print.

How a page says what happens to a block (the same rules for README and docs):

``python``
    A program. It runs in the page's own empty folder; an exception fails the page.
    With ``title="app.py"`` it is written to that file instead of being run.
``console``
    Each line after ``$ `` is a shell command in that folder and must succeed; the lines up to the
    next ``$ ``, if there are any, are its output.
``text``
    The output of the ``python`` or ``console`` block right before it.
``toml``, ``json``, ``yaml`` with ``title="mastra.toml"``
    Written to that file. Without a title they are only read by people.
``<!-- run-by: .ci/run -->`` on the line before a block
    The block isn't run here, because that file runs it: each of its commands must stand there.
``<!-- from: examples/… -->`` on the line before a block
    The block is a part of that file: its lines must stand there, one below the other.

Commands find the repository under ``$CLONE``. In an expected output, ``...`` stands for any text, also over several lines.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ("Block", "DocError", "blocks_of", "matches", "run_page")

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[\w-]*) *(?P<info>[^`]*)$")
REMARK = re.compile(r"^\s*<!-- (?P<kind>run-by|from): (?P<path>\S+) -->\s*$")
TITLE = re.compile(r'title="([^"]+)"')
#: Languages whose titled blocks become files.
FILES = {"python", "toml", "json", "yaml", "ini"}
TIME_LIMIT_S = 300


class DocError(AssertionError):
    """A block did not do what its page says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block of a page."""

    language: str
    text: str
    #: Line of the opening fence, from 1.
    line: int
    #: File that the block is written to, if it names one.
    title: str | None = None
    #: File of the repository that runs the block instead of us.
    run_by: str | None = None
    #: File of the repository that the block is a part of.
    part_of: str | None = None


@dataclass(slots=True)
class Session:
    """The folder that a page's blocks share, and what the last one printed."""

    folder: Path
    root: Path
    printed: str | None = None
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *command: str) -> str:
        """Run a command in the page's folder; its standard output."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
        if done.returncode:
            said = f"{done.stdout}{done.stderr}".strip()
            raise DocError(f"ended with code {done.returncode}:\n{said}")
        return done.stdout


def blocks_of(text: str) -> list[Block]:
    """All fenced blocks of a Markdown text, in order."""
    found: list[Block] = []
    lines = text.splitlines()
    number = 0
    remark: dict[str, str] = {}
    while number < len(lines):
        line = lines[number]
        number += 1
        opening = FENCE.match(line)
        if opening is None:
            if comment := REMARK.match(line):
                remark = {comment["kind"]: comment["path"]}
            elif line.strip():
                remark = {}
            continue
        start, indent = number, len(opening["indent"])
        while number < len(lines) and lines[number].strip() != opening["fence"]:
            number += 1
        title = TITLE.search(opening["info"])
        found.append(
            Block(
                language=opening["language"],
                text="\n".join(part[indent:] for part in lines[start:number]),
                line=start,
                title=title[1] if title else None,
                run_by=remark.get("run-by"),
                part_of=remark.get("from"),
            )
        )
        remark = {}
        number += 1
    return found


def commands_of(block: Block) -> list[tuple[str, str]]:
    """The commands of a ``console`` block, each with the output that is promised ("" for none)."""
    commands: list[tuple[str, str]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], ""))
        elif not commands:
            raise DocError("a console block starts with a line '$ command'")
        elif commands[-1][0].endswith("\\") and not commands[-1][1]:
            commands[-1] = (f"{commands[-1][0]}\n{line}", "")
        else:
            command, output = commands[-1]
            commands[-1] = (command, f"{output}{line}\n")
    return commands


def matches(expected: str, printed: str) -> bool:
    """Whether an output is the promised one; ``...`` in the promise stands for any text."""
    parts = [re.escape(part) for part in lines_trimmed(expected).split("...")]
    return re.fullmatch("[\\s\\S]*".join(parts), lines_trimmed(printed)) is not None


def lines_trimmed(text: str) -> str:
    """A text without blanks at the ends of its lines and without outer blank lines."""
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()).strip()


def compare(expected: str, printed: str) -> None:
    """Fail unless ``printed`` is what the page promises."""
    if not matches(expected, printed):
        raise DocError(
            f"the page promises:\n{expected.strip()}\nbut it printed:\n{printed.strip()}"
        )


def run_page(page: Path, root: Path) -> int:
    """Run all blocks of a page in order; how many ran. Fails with the line of the block."""
    ran = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        env = {
            **os.environ,
            "PATH": path,
            "NO_COLOR": "1",
            "COLUMNS": "100",
            "CLONE": str(root.resolve()),
        }
        session = Session(folder=Path(folder), root=root, env=env)
        for block in blocks_of(page.read_text()):
            try:
                ran += run_block(block, session)
            except DocError as exc:
                raise DocError(f"{page}:{block.line}: {exc}") from None
    return ran


def run_block(block: Block, session: Session) -> bool:
    """Do what one block says; True if something ran."""
    if block.run_by is not None:
        check_run_by(block, (session.root / block.run_by).read_text())
        session.printed = None
        return False
    if block.part_of is not None:
        check_part(block, (session.root / block.part_of).read_text())
        session.printed = None
        return False
    if block.title is not None and block.language in FILES:
        target = session.folder / block.title
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"{block.text}\n")
        session.printed = None
        return False
    match block.language:
        case "python":
            session.printed = session.run(sys.executable, "-c", block.text)
        case "console":
            printed = []
            for command, output in commands_of(block):
                printed.append(session.run("bash", "-c", command))
                if output:
                    compare(output, printed[-1])
            session.printed = "".join(printed)
        case "text":
            if session.printed is not None:
                compare(block.text, session.printed)
            session.printed = None
            return False
        case _:
            session.printed = None
            return False
    return True


def check_run_by(block: Block, text: str) -> None:
    """Fail unless each command of the block stands in the file that is said to run it."""
    for command, _ in commands_of(block):
        for step in command.split(" && "):
            if step.strip() not in text and not is_making_environment(step):
                raise DocError(f"{block.run_by} does not contain: {step.strip()}")


def check_part(block: Block, text: str) -> None:
    """Fail unless the block's lines stand in the file it is said to be a part of."""
    if f"\n{block.text.rstrip()}\n" not in f"\n{text}\n":
        raise DocError(f"{block.part_of} does not contain this")


def is_making_environment(step: str) -> bool:
    """Whether a step only makes the virtual environment; how depends on the machine."""
    return shlex.split(step)[:3] == ["python3", "-m", "venv"]
