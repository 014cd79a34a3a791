"""The packaged suites and the modules that bind them."""

from __future__ import annotations

from importlib import import_module
from inspect import getmembers, isclass
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

import mastra_conformance
from mastra_conformance.naming import PACKAGE
from mastra_conformance.suite import Suite

__all__ = ()

ROOT = Path(mastra_conformance.__file__).parent


def modules_below(name: str) -> list[ModuleType]:
    folder = ROOT / name
    found = walk_packages([str(folder)], prefix=f"{PACKAGE}.{name}.")
    return [import_module(module.name) for module in found]


def suites_of(module: ModuleType) -> list[type[Suite]]:
    return [
        found
        for _, found in getmembers(module, isclass)
        if issubclass(found, Suite) and found.__module__ == module.__name__
    ]


def has_tests(suite: type[Suite]) -> bool:
    return any(name.startswith("test_") for name in dir(suite))


def test_every_suite_is_bound_in_the_folder_of_its_tier() -> None:
    """A suite that no ``cases_t…`` module binds would never run."""
    bound: dict[type[Suite], set[int]] = {}
    for tier in range(7):
        for module in modules_below(f"cases_t{tier}") if (ROOT / f"cases_t{tier}").is_dir() else ():
            for test_class in suites_of(module):
                for base in test_class.__mro__[1:]:
                    bound.setdefault(base, set()).add(tier)

    suites = [suite for module in modules_below("suites") for suite in suites_of(module)]

    missing = [
        f"{suite.__module__}.{suite.__name__} in cases_t{suite.tier}"
        for suite in suites
        if has_tests(suite) and suite.tier not in bound.get(suite, set())
    ]
    assert missing == []


def test_suites_name_no_backend() -> None:
    """Differences go through capabilities; drivers and SQL have no place in a suite."""
    words = ("libsql", "sqlite", "postgres", "mongodb", "redis", "sqlalchemy", "apsw", "SELECT ")
    faults = [
        f"{path.relative_to(ROOT)}:{number}: {word}"
        for path in sorted((ROOT / "suites").rglob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for word in words
        if word in line and not line.lstrip().startswith("#")
    ]

    assert faults == []


def test_binding_modules_hold_nothing_but_bindings() -> None:
    """Tiers 1 to 3 define no test of their own, so that authors can bind the same suites."""
    faults = [
        f"{module.__name__}.{name}"
        for tier in (1, 2, 3)
        for module in modules_below(f"cases_t{tier}")
        for test_class in suites_of(module)
        for name in vars(test_class)
        if name.startswith("test_")
    ]

    assert faults == []
