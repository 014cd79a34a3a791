"""Names that stay the same wherever a suite is bound: test ids and namespaces."""

from __future__ import annotations

import hashlib
import re

import pytest

from mastra_conformance.marks import TIER
from mastra_conformance.suite import Suite

__all__ = ("PACKAGE", "is_ours", "namespace_of", "suite_class", "test_id", "tier_of")

PACKAGE = "mastra_conformance"
"""Modules of this package are the suite; all others are an author's."""

_TIER_FOLDER = re.compile(r"\.cases_t([0-6])(\.|$)")


def suite_class(item: pytest.Item) -> type[Suite] | None:
    """The suite class that a test belongs to; None for a plain test function."""
    owner = getattr(item, "cls", None)
    return owner if isinstance(owner, type) and issubclass(owner, Suite) else None


def is_ours(item: pytest.Item) -> bool:
    """Whether a test is part of the suite: a suite class, or a module of the package."""
    return suite_class(item) is not None or _tier_of_module(_module_name(item)) is not None


def tier_of(item: pytest.Item) -> int:
    """The tier of a test: its own mark, else its module's folder, else its class."""
    mark = item.get_closest_marker(TIER)
    if mark is not None:
        return int(mark.args[0])
    owner = suite_class(item)
    if owner is not None:
        return owner.tier
    return _tier_of_module(_module_name(item)) or 0


def test_id(item: pytest.Item) -> str:
    """
    The id of a test in reports and expectation files.

    It names the suite that defines the test, not the class that binds it, so
    that it is the same in every project: ``storage.memory.ThreadSuite.test_x[a]``.
    """
    name = getattr(item, "originalname", None) or item.name
    return f"{_suite_name(item, name)}.{name}{_parameters(item)}"


test_id.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it from a test module


def namespace_of(nodeid: str, salt: str = "") -> str:
    """A short name for a test's tables, keys and files; safe as an SQL identifier."""
    digest = hashlib.sha256(f"{salt}\0{nodeid}".encode()).hexdigest()
    return f"mc_{digest[:12]}"


def _module_name(item: pytest.Item) -> str:
    module = getattr(item, "module", None)
    return str(getattr(module, "__name__", ""))


def _tier_of_module(name: str) -> int | None:
    if not name.startswith(PACKAGE):
        return None
    match = _TIER_FOLDER.search(name)
    return int(match[1]) if match else None


def _suite_name(item: pytest.Item, test_name: str) -> str:
    """Module and class of the suite that a test comes from."""
    owner = suite_class(item)
    if owner is None:
        return _short_module(_module_name(item))
    definitions = [base for base in owner.__mro__ if test_name in vars(base)]
    packaged = [base for base in definitions if base.__module__.startswith(f"{PACKAGE}.suites")]
    home = (packaged or definitions or [owner])[-1 if packaged else 0]
    return f"{_short_module(home.__module__)}.{home.__qualname__}"


def _short_module(name: str) -> str:
    """``storage.memory`` for a suite of ours, ``t0.test_x`` for a test module of ours."""
    short = name.removeprefix(f"{PACKAGE}.")
    return short.removeprefix("suites.").replace("cases_t", "t", 1) if short != name else name


def _parameters(item: pytest.Item) -> str:
    """The parameters of a test without the one that names the adapter."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return ""
    label = getattr(callspec.params.get("subject"), "label", "")
    parts = callspec.id.removeprefix("asyncio-").removesuffix("-asyncio").split("-")
    skipped = label.split("-") if label else []
    for start in range(len(parts) - len(skipped) + 1):
        if skipped and parts[start : start + len(skipped)] == skipped:
            del parts[start : start + len(skipped)]
            break
    text = "-".join(part for part in parts if part != "asyncio")
    return f"[{text}]" if text else ""
