"""Which tests run, for which adapter, and in which order."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from mastra_conformance.cases import cases_of
from mastra_conformance.expectations import Expectations
from mastra_conformance.marks import (
    NEEDS_FILE,
    NEEDS_SERVER,
    NOTHING_TO_REFUSE,
    REQUIRES,
    SEVERAL_PROCESSES,
)
from mastra_conformance.naming import PACKAGE, is_ours, suite_class, test_id, tier_of
from mastra_conformance.node.stores import node_domains
from mastra_conformance.options import Options
from mastra_conformance.refusals import Refusal
from mastra_conformance.subject import Subject
from mastra_conformance.suite import Suite

__all__ = (
    "capabilities_of",
    "check_ids",
    "check_overrides",
    "is_selected",
    "mark_expected",
    "refusal_of",
    "role_of",
    "shuffle",
    "subject_of",
)


def subject_of(item: pytest.Item) -> Subject | None:
    """The adapter that a collected test is for; None when it needs none."""
    value = _parameter(item, "subject")
    return value if isinstance(value, Subject) else None


def refusal_of(item: pytest.Item) -> Refusal | None:
    """What a generated refusal test asks for; None for all other tests."""
    value = _parameter(item, "refusal")
    return value if isinstance(value, Refusal) else None


def role_of(item: pytest.Item) -> str:
    """What the test needs opened: storage, pubsub, lease or runtime."""
    owner = suite_class(item)
    return owner.role if owner is not None else "static"


def capabilities_of(item: pytest.Item) -> tuple[str, ...]:
    """The capabilities that a test needs, those of its class first."""
    owner = suite_class(item)
    names = list(owner.capabilities) if owner is not None else []
    for mark in item.iter_markers(REQUIRES):
        names.extend(name for name in mark.args if name not in names)
    return tuple(names)


def is_selected(item: pytest.Item, options: Options) -> bool:
    """Whether a test of the suite belongs to this run."""
    cases_of(item)  # unknown numbers are errors, also when the test isn't selected
    if tier_of(item) not in options.tiers:
        return False
    needed, refusal, subject = capabilities_of(item), refusal_of(item), subject_of(item)
    if options.only and not set(options.only) & {
        *needed,
        *([refusal.capability] if refusal else []),
    }:
        return False
    role = role_of(item)
    if role == "static":
        return True
    if subject is None:
        return refusal is None and item.get_closest_marker(NOTHING_TO_REFUSE) is None
    if not _is_reachable(item, subject) or not _is_shared_with_node(item, subject):
        return False
    wanted = "storage" if role == "runtime" else role
    if wanted not in options.roles or wanted not in subject.roles:
        return False
    return set(needed) <= subject.capabilities


def _is_shared_with_node(item: pytest.Item, subject: Subject) -> bool:
    """Tier 5: whether the TypeScript system keeps what the test is about on this backend."""
    owner = suite_class(item)
    if owner is None or tier_of(item) != 5:
        return True
    there = node_domains(subject.url)
    return bool(there) and set(owner.node_domains) <= there


def mark_expected(item: pytest.Item, expectations: Expectations) -> None:
    """Turn a known failure into a strict expected one."""
    subject = subject_of(item)
    name, version = (subject.name, subject.version) if subject is not None else ("", None)
    entry = expectations.find(test_id(item), name, version)
    if entry is not None and not entry.override:
        item.add_marker(pytest.mark.xfail(reason=f"{entry.kind}: {entry.reason}", strict=True))


def check_ids(items: Iterable[pytest.Item], expectations: Expectations, options: Options) -> None:
    """
    Refuse a file of known failures that speaks of tests that don't exist.

    Raises:
        pytest.UsageError: An id of the file is unknown.
    """
    known = {test_id(item) for item in items}
    unknown = expectations.unknown(known) if known else []
    if unknown:
        raise pytest.UsageError(f"{options.expect}: no test has the id {', '.join(unknown)}.")


def check_overrides(items: Iterable[pytest.Item], expectations: Expectations) -> None:
    """
    Refuse subclasses that replace tests of a suite.

    Raises:
        pytest.UsageError: A test was replaced or removed without an entry that says why.
    """
    owners = {owner for item in items if (owner := suite_class(item)) is not None}
    faults = sorted(
        fault
        for owner in owners
        for fault in _replaced_tests(owner)
        if not expectations.allows_override(fault)
    )
    if faults:
        raise pytest.UsageError(
            "A subclass replaces tests of the suite: "
            + ", ".join(faults)
            + ". Add an entry with `override = true` to the expectations file that says why."
        )


def shuffle(items: Sequence[pytest.Item], seed: int) -> list[pytest.Item]:
    """
    Random order that keeps modules and classes together.

    Tests that aren't part of the suite keep their places.
    """
    places = [place for place, item in enumerate(items) if is_ours(item)]
    # Sorted first: other plugins may have mixed them already, with another seed.
    ordered = sorted((items[place] for place in places), key=lambda item: item.nodeid)
    mixed = _shuffled(ordered, random.Random(seed))
    result = list(items)
    for place, item in zip(places, mixed, strict=True):
        result[place] = item
    return result


def _is_reachable(item: pytest.Item, subject: Subject) -> bool:
    """Whether the adapter keeps its data where the test must reach it."""
    unreachable: tuple[str, ...]
    if subject.is_volatile:
        unreachable = (SEVERAL_PROCESSES, NEEDS_SERVER, NEEDS_FILE)
    else:
        unreachable = (NEEDS_FILE if subject.is_served else NEEDS_SERVER,)
    return not any(item.get_closest_marker(name) for name in unreachable)


def _parameter(item: pytest.Item, name: str) -> object:
    callspec = getattr(item, "callspec", None)
    return callspec.params.get(name) if callspec is not None else None


def _replaced_tests(owner: type[Suite]) -> Iterable[str]:
    for position, base in enumerate(owner.__mro__):
        if not base.__module__.startswith(f"{PACKAGE}.suites"):
            continue
        for name in vars(base):
            later = any(name in vars(child) for child in owner.__mro__[:position])
            if name.startswith("test_") and later:
                home = base.__module__.removeprefix(f"{PACKAGE}.suites.")
                yield f"{home}.{base.__qualname__}.{name}"


def _shuffled(items: list[pytest.Item], rng: random.Random) -> list[pytest.Item]:
    def module(item: pytest.Item) -> object:
        return item.nodeid.split("::", 1)[0]

    def owner(item: pytest.Item) -> object:
        return getattr(item, "cls", None)

    return [
        item
        for in_module in _mixed_groups(items, module, rng)
        for in_class in _mixed_groups(in_module, owner, rng)
        for item in rng.sample(in_class, len(in_class))
    ]


def _mixed_groups(
    items: list[pytest.Item], key: Callable[[pytest.Item], Any], rng: random.Random
) -> list[list[pytest.Item]]:
    groups: dict[object, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return rng.sample(list(groups.values()), len(groups))
