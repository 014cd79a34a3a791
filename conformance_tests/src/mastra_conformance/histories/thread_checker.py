"""Was everything that a thread accepted answered once, by one owner at a time, in order?

Judges what a thread holds in the end, and what its readers saw (signals.md 8.1, 22). What was
sent are words of their own, ``w1``; an answer says who gives it, which answer it knew as the
last one, and what it answers: ``p.2 after q.1: w1 w2``. So an answer that was given without
knowing the one before it gives itself away.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

__all__ = (
    "FIRST",
    "Answer",
    "Sent",
    "Told",
    "answer_in",
    "check_thread",
    "check_view",
    "open_runs",
)

FIRST = "nothing"
"""What the first answer of a thread follows."""

#: What ends a run.
_ENDS = frozenset({"finish", "error", "abort"})
_ANSWER = re.compile(r"^(?P<label>\S+) after (?P<after>\S+):(?P<words>[^:]*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One word that was sent, and what its sender was told."""

    word: str
    sender: str
    #: It was accepted: it has to be answered. Otherwise it may be, once.
    is_accepted: bool = True
    #: It asked for a run of its own; the place among those of its sender.
    turn: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One row of the thread."""

    #: ``assistant`` for answers.
    role: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an answer says of itself."""

    label: str
    after: str
    words: tuple[str, ...]


def answer_in(text: str) -> Answer | None:
    """The answer in a text; None if it is none, or only its beginning."""
    found = _ANSWER.match(text.strip())
    if found is None:
        return None
    words = tuple(found["words"].split())
    return Answer(label=found["label"], after=found["after"], words=words)


def check_thread(rows: Sequence[Told], sent: Iterable[Sent]) -> list[str]:
    """
    The faults of a thread, one sentence each; none if it keeps G1, G2, G5 and 8.1.

    Args:
        rows: What is stored, in its order.
        sent: Everything that anybody tried to send.
    """
    known = {one.word: one for one in sent}
    faults = _check_rows(rows, known)
    answers: list[Answer] = []
    for row in rows:
        if row.role != "assistant":
            continue
        answer = answer_in(row.text)
        if not row.text:
            # Nothing but an error: it says itself that it is no answer.
            continue
        if answer is None:
            faults.append(f"{row.text!r} is no whole answer.")
        else:
            answers.append(answer)
    faults += _check_answers(answers, known)
    faults += _check_chain(answers)
    return faults + _check_turns(answers, known.values())


def _check_rows(rows: Sequence[Told], known: Mapping[str, Sent]) -> list[str]:
    entered = Counter(row.text for row in rows if row.role != "assistant")
    faults = [f"{word} entered {count} times." for word, count in entered.items() if count > 1]
    faults += [f"{word!r} was never sent." for word in entered if word not in known]
    faults += [
        f"{word} was accepted and never entered."
        for word, one in known.items()
        if one.is_accepted and word not in entered
    ]
    seen: set[str] = set()
    for row in rows:
        if row.role != "assistant":
            seen.add(row.text)
            continue
        answer = answer_in(row.text)
        for word in answer.words if answer is not None else ():
            if word not in seen and word in entered:
                faults.append(f"{word} was answered by {row.text!r} before it entered.")
    return faults


def _check_answers(answers: Sequence[Answer], known: Mapping[str, Sent]) -> list[str]:
    counts = Counter(word for answer in answers for word in answer.words)
    faults = [f"{word} was answered {n} times." for word, n in counts.items() if n > 1]
    return faults + [
        f"{word} was accepted and never answered."
        for word, one in known.items()
        if one.is_accepted and not counts[word]
    ]


def _check_chain(answers: Sequence[Answer]) -> list[str]:
    faults = []
    if answers and answers[0].after != FIRST:
        faults.append(f"{answers[0].label} knew of {answers[0].after}, which is not stored.")
    for before, answer in pairwise(answers):
        if answer.after != before.label:
            faults.append(
                f"{answer.label} followed {before.label}, but only knew of {answer.after}."
            )
    return faults


def _check_turns(answers: Sequence[Answer], sent: Iterable[Sent]) -> list[str]:
    turns = {one.word: one for one in sent if one.turn is not None}
    faults = []
    last: dict[str, Sent] = {}
    for answer in answers:
        here = [turns[word] for word in answer.words if word in turns]
        if len(here) > 1:
            faults.append(f"{answer.label} answers {len(here)} turns at once.")
        for one in here:
            before = last.get(one.sender)
            if before is not None and (before.turn or 0) > (one.turn or 0):
                faults.append(f"{one.word} had its turn after {before.word}.")
            last[one.sender] = one
    return faults


def check_view(
    chunks: Sequence[Mapping[str, Any]], answers: Iterable[str], *, is_over: bool = True
) -> list[str]:
    """
    The faults of what a reader saw: each run whole, or its end an error that says so (12).

    Args:
        chunks: What it saw, in its order.
        answers: The texts that are stored.
        is_over: Nothing goes on any more, so that every run that was seen has ended.
    """
    faults: list[str] = []
    stored = set(answers)
    ended: dict[str, str] = {}
    texts: dict[str, list[str]] = {}
    current: str | None = None
    for chunk in chunks:
        run_id, kind = str(chunk.get("runId")), str(chunk.get("type"))
        if ended.get(run_id) == "error" and kind in ("start", "error"):
            # Its owner was lost, and another one answers, or tries to, under the id that was
            # promised.
            del ended[run_id]
            texts[run_id] = []
            current = run_id
        if run_id in ended:
            faults.append(f"{run_id} said {kind} after its {ended[run_id]}.")
            continue
        if run_id != current:
            if current is not None and current not in ended:
                faults.append(f"{run_id} began before {current} had ended.")
            current = run_id
            if kind not in ("start", "error", "abort"):
                faults.append(f"{run_id} began with {kind}.")
        parts = texts.setdefault(run_id, [])
        if kind == "text-start":
            parts.append("")
        elif kind == "text-delta":
            if not parts:
                faults.append(f"{run_id} went on with a text that never began.")
                parts.append("")
            parts[-1] += str(chunk["payload"]["text"])
        elif kind in _ENDS:
            ended[run_id] = kind
    for run_id, kind in ended.items():
        if kind == "finish":
            faults += [
                f"{run_id} finished with {text!r}, which is not stored."
                for text in texts[run_id]
                if text not in stored
            ]
    if is_over:
        faults += [f"{run_id} never ended." for run_id in texts if run_id not in ended]
    return faults


def open_runs(chunks: Iterable[Mapping[str, Any]]) -> list[str]:
    """The runs of which a reader has seen something, but no end yet."""
    ends: dict[str, str | None] = {}
    for chunk in chunks:
        run_id, kind = str(chunk.get("runId")), str(chunk.get("type"))
        if kind in _ENDS:
            ends[run_id] = kind
        elif kind == "start" and ends.get(run_id) == "error":
            # Another one answers under the id that was promised.
            ends[run_id] = None
        else:
            ends.setdefault(run_id, None)
    return [run_id for run_id, end in ends.items() if end is None]
