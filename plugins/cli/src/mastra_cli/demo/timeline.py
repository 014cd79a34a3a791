"""What the person at the terminal sees: one line for each thing that happens, as it happens."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TextIO

__all__ = ("PlainTimeline", "RichTimeline", "Timeline", "new_timeline")

_COLOURS: Final = {"inbox": "cyan", "model": "magenta", "tool": "yellow", "demo": "bold red"}


class PlainTimeline:
    """
    Plain lines with the seconds since the start.

    Args:
        out: Where to write.
        seconds: The time; a monotonic clock.
    """

    def __init__(self, out: TextIO, seconds: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._seconds = seconds
        self._start = seconds()
        self._speech = ""

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._seconds() - self._start

    def title(self, text: str) -> None:
        """The beginning of a part."""
        self._write(f"\n== {text}")

    def note(self, who: str, text: str) -> None:
        """Somebody did something."""
        self._write(f"{self.elapsed:6.1f}s  {who:<8} {text}")

    def speak(self, text: str) -> None:
        """A piece of what the model says."""
        self._speech += text

    def end_speech(self) -> None:
        """The model has said it."""
        if self._speech.strip():
            self.note("model", f"“{' '.join(self._speech.split())}”")
        self._speech = ""

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """Names and values, aligned."""
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            self._write(f"  {name:<{width}}  {value}")

    def commands(self, lines: Sequence[str]) -> None:
        """Commands to copy."""
        for line in lines:
            self._write(f"  {line}")

    def _write(self, text: str) -> None:
        encoding = self._out.encoding or "utf-8"
        self._out.write(f"{text.encode(encoding, 'replace').decode(encoding)}\n")
        self._out.flush()


class RichTimeline:
    """
    The same with colours, and with the model's words appearing one by one.

    Args:
        out: A terminal.
        seconds: The time; a monotonic clock.
    """

    def __init__(self, out: TextIO, seconds: Callable[[], float] = time.monotonic) -> None:
        from rich.console import Console

        self._console = Console(file=out, highlight=False)
        self._seconds = seconds
        self._start = seconds()
        self._speaks = False

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._seconds() - self._start

    def title(self, text: str) -> None:
        """The beginning of a part."""
        from rich.rule import Rule
        from rich.text import Text

        self._console.print()
        self._console.print(Rule(Text(text, style="bold"), align="left", style="dim"))

    def note(self, who: str, text: str) -> None:
        """Somebody did something."""
        self._console.print(self._line(who, text), soft_wrap=True)

    def _line(self, who: str, text: str) -> Any:
        from rich.text import Text

        line = Text(f"{self.elapsed:6.1f}s  ", style="dim")
        line.append(f"{who:<8} ", style=_COLOURS.get(who, "green"))
        return line.append(text, style="default")

    def speak(self, text: str) -> None:
        """A piece of what the model says."""
        from rich.text import Text

        if not self._speaks:
            self._speaks = True
            text = text.lstrip()
            self._console.print(self._line("model", "“"), end="", soft_wrap=True)
        piece = Text(" ".join(text.split("\n")), style="italic")
        self._console.print(piece, end="", soft_wrap=True)

    def end_speech(self) -> None:
        """The model has said it."""
        if self._speaks:
            self._console.print("”")
        self._speaks = False

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """Names and values, aligned."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False, pad_edge=True)
        table.add_column(style="bold")
        table.add_column()
        for name, value in rows:
            table.add_row(Text(name), Text(value))
        self._console.print(table)

    def commands(self, lines: Sequence[str]) -> None:
        """Commands to copy."""
        from rich.text import Text

        for line in lines:
            self._console.print(Text(f"  {line}", style="bold cyan"), soft_wrap=True)


Timeline = PlainTimeline | RichTimeline


def new_timeline(*, as_json: bool) -> Timeline:
    """Colours on a terminal, plain lines elsewhere; on stderr if stdout is for JSON."""
    out = sys.stderr if as_json else sys.stdout
    return RichTimeline(out) if out.isatty() else PlainTimeline(out)
