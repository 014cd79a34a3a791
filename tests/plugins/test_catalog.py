"""What we know about adapters that may not be installed."""

from __future__ import annotations

import pytest

from mastra_core.plugins.catalog import (
    CATALOG,
    CATALOG_PLUGINS,
    closest_scheme,
    known_adapter,
    known_schemes,
    scheme_prefix,
)


def test_each_scheme_belongs_to_one_adapter() -> None:
    """Canonical names and aliases together."""
    names = [name for item in CATALOG for name in (*item.schemes, *item.aliases)]

    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize(
    ("scheme", "name"),
    [
        ("memory", "memory"),
        ("file", "libsql"),
        ("libsql", "libsql"),
        ("postgres", "postgres"),
        ("postgresql", "postgres"),
        ("mongodb+srv", "mongodb"),
        ("rediss", "redis"),
        ("redis+unix", "redis"),
        ("unix", "unix_socket"),
    ],
)
def test_schemes_lead_to_adapters(scheme: str, name: str) -> None:
    """Aliases, too."""
    found = known_adapter(scheme)

    assert found is not None
    assert name == found.name


def test_unknown_scheme_is_unknown() -> None:
    """No guessing here."""
    assert known_adapter("acme") is None


def test_shown_schemes_depend_on_the_role() -> None:
    """The list of the error message; aliases are left out, plugins' schemes are added."""
    storage = ("file", "libsql", "memory", "mongodb", "postgresql", "redis")

    assert storage == known_schemes("storage")
    assert (*storage, "unix") == known_schemes("lease")
    assert ("acme", *storage) == known_schemes("storage", ["acme", "rediss"])


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("postgress", "postgresql"),
        ("Postgres", "postgresql"),
        ("mongo", "mongodb"),
        ("rediss2", "redis"),
        ("acm", "acme"),
        ("zzz", None),
    ],
)
def test_the_closest_scheme_is_a_canonical_one(typed: str, meant: str | None) -> None:
    """Aliases help to guess, but aren't shown."""
    assert meant == closest_scheme(typed, "storage", ["acme"])


def test_prefixes_look_as_people_write_them() -> None:
    """Opaque schemes have no slashes."""
    assert ["file:", "postgresql://"] == [scheme_prefix("file"), scheme_prefix("postgresql")]


def test_distributions_are_ours() -> None:
    """Names of design 7.1."""
    assert "mastra-unix-socket" == CATALOG_PLUGINS["unix_socket"]
    assert all(name.startswith("mastra-") for name in CATALOG_PLUGINS.values())
