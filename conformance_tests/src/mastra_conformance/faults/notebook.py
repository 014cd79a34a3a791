"""What a test notes down for whoever has to find out why it failed.

Plans, histories and the command that repeats the test are shown with a failure only.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

import pytest

from mastra_conformance.collection import subject_of
from mastra_conformance.histories.recorder import History
from mastra_conformance.naming import is_ours, test_id, tier_of
from mastra_conformance.options import options_of

__all__ = ("Notebook", "add_notes", "notebook_of", "repeat_command")

_KEY: pytest.StashKey[Notebook] = pytest.StashKey()

_FIRST_TIER_WITH_CHANCE = 2


@dataclass(slots=True)
class Notebook:
    """Notes of one test."""

    #: Title → text.
    notes: dict[str, str] = field(default_factory=dict)
    #: Name → everything that clients did.
    histories: dict[str, History] = field(default_factory=dict)

    def note(self, title: str, text: object) -> None:
        """Show this if the test fails."""
        self.notes[title] = str(text)

    def history(self, name: str = "history") -> History:
        """A history that is kept as JSON lines if the test fails."""
        return self.histories.setdefault(name, History())


def notebook_of(item: pytest.Item) -> Notebook:
    """The notes of a test, empty at first."""
    return item.stash.setdefault(_KEY, Notebook())


def repeat_command(item: pytest.Item) -> str:
    """The command line that runs this test again with the same chances."""
    options, subject = options_of(item.config), subject_of(item)
    name = getattr(item, "originalname", None) or item.name
    parts = [
        *("mastra-conformance", "run", subject.key if subject is not None else "URL"),
        *(f"--tier={tier_of(item)}", f"--seed={options.seed}"),
    ]
    if options.own_server:
        parts.append(f"--own-server={options.own_server}")
    if options.older:
        parts.append(f"--older={options.older}")
    return shlex.join([*parts, "-k", name])


def add_notes(item: pytest.Item, report: pytest.TestReport) -> None:
    """Attach the notes to the report of a failure, and keep the histories."""
    if not report.failed or not is_ours(item) or tier_of(item) < _FIRST_TIER_WITH_CHANCE:
        return
    report.sections.append(("Repeat this test with", repeat_command(item)))
    notebook = item.stash.get(_KEY, None)
    if notebook is None:
        return
    report.sections.extend(notebook.notes.items())
    for name, history in notebook.histories.items():
        if history.operations:
            report.sections.append((f"History {name!r}", _kept(item, name, history)))


def _kept(item: pytest.Item, name: str, history: History) -> str:
    """Write the history and say where it is."""
    folder = options_of(item.config).histories
    folder.mkdir(parents=True, exist_ok=True)
    subject = subject_of(item)
    label = subject.label if subject is not None else "none"
    path = folder / f"{label}.{test_id(item).replace('/', '_')}.{name}.jsonl"
    path.write_text(history.to_json_lines() + "\n", "utf-8")
    return str(path)
