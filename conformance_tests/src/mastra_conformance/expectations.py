"""The file of known failures: what an author knows to be wrong, and why.

It is strict in both directions: a listed test that passes is a failure, and an
id that no test has is an error.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

__all__ = (
    "Expectation",
    "ExpectationError",
    "Expectations",
    "Kind",
    "in_range",
    "load_expectations",
)

Kind = Literal["not_yet", "upstream", "never"]
"""Not built yet; a fault of the driver or server; contrary to the backend's nature."""

_MEMBERS = frozenset({"case", "kind", "reason", "issue", "adapter", "versions", "override"})


class ExpectationError(ValueError):
    """The file can't be read as what it should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One known failure."""

    case: str
    kind: Kind
    reason: str
    issue: str | None = None
    #: Only for the adapter of this name; None for all.
    adapter: str | None = None
    #: Only for versions of the adapter's distribution in this range, such as ``>=1,<2``.
    versions: str | None = None
    #: The test is replaced in a subclass instead of failing.
    override: bool = False

    def applies_to(self, adapter: str, version: str | None) -> bool:
        """Whether this entry speaks about the given adapter."""
        if self.adapter not in {None, adapter}:
            return False
        return self.versions is None or version is None or in_range(version, self.versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """All entries of one file; empty when there is no file."""

    entries: tuple[Expectation, ...] = ()

    def find(self, case: str, adapter: str, version: str | None) -> Expectation | None:
        """The entry for one test of one adapter; None when nothing is expected."""
        for entry in self.entries:
            if entry.case == case and entry.applies_to(adapter, version):
                return entry
        return None

    def unknown(self, known: Iterable[str]) -> list[str]:
        """The ids of the file that no test has."""
        return sorted({entry.case for entry in self.entries} - set(known))

    def allows_override(self, case: str) -> bool:
        """Whether a subclass may replace this test."""
        return any(entry.case == case and entry.override for entry in self.entries)


def load_expectations(path: Path) -> Expectations:
    """
    Read a file of ``[[expect]]`` tables.

    Raises:
        ExpectationError: It isn't there, isn't TOML, or an entry is wrong.
    """
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as exc:
        raise ExpectationError(f"Can't read {str(path)!r}: {exc.strerror}.") from exc
    except tomllib.TOMLDecodeError as exc:
        raise ExpectationError(f"{str(path)!r} is not TOML: {exc}") from exc
    tables = document.pop("expect", [])
    if document or not isinstance(tables, list):
        raise ExpectationError(f"{str(path)!r} holds something else than [[expect]] tables.")
    return Expectations(entries=tuple(_entry(table) for table in tables))


def in_range(version: str, wanted: str) -> bool:
    """
    Whether a version lies in a range such as ``>=1.2,<2``.

    Raises:
        ExpectationError: The range can't be read.
    """
    return all(_satisfies(version, part.strip()) for part in wanted.split(","))


def _satisfies(version: str, condition: str) -> bool:
    for operator in ("<=", ">=", "==", "!=", "<", ">"):
        if condition.startswith(operator):
            break
    else:
        raise ExpectationError(f"Version range {condition!r} starts with no comparison.")
    ours, theirs = _release(version), _release(condition.removeprefix(operator).strip())
    width = max(len(ours), len(theirs))
    left, right = (part + (0,) * (width - len(part)) for part in (ours, theirs))
    return {
        "<": left < right,
        "<=": left <= right,
        "==": left == right,
        "!=": left != right,
        ">=": left >= right,
        ">": left > right,
    }[operator]


def _release(text: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    if not numbers:
        raise ExpectationError(f"Version {text!r} has no number.")
    return tuple(numbers)


def _entry(table: Mapping[str, Any]) -> Expectation:
    unknown = sorted(set(table) - _MEMBERS)
    if unknown:
        known = ", ".join(sorted(_MEMBERS))
        raise ExpectationError(f"Unknown members {unknown} of an expectation. Known: {known}.")
    for member in ("case", "kind", "reason"):
        if not isinstance(table.get(member), str) or not table[member]:
            raise ExpectationError(f"An expectation lacks its {member!r}: {dict(table)!r}.")
    if table["kind"] not in get_args(Kind):
        raise ExpectationError(f"Kind {table['kind']!r} is not one of {', '.join(get_args(Kind))}.")
    if "versions" in table:
        in_range("0", table["versions"])
    return Expectation(**table)
