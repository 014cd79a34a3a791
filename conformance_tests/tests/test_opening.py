"""Where a test keeps its data."""

from __future__ import annotations

from pathlib import Path

import pytest

from mastra_conformance.clock import ShiftedClock
from mastra_conformance.naming import namespace_of
from mastra_conformance.opening import Opener, place_for
from mastra_conformance.subject import Subject, find_subject
from mastra_core.base.ids import UuidIds
from mastra_core.errors import UnknownSchemeError

__all__ = ()

pytestmark = pytest.mark.anyio


def subject_at(url: str, *, is_volatile: bool = False) -> Subject:
    return Subject(
        url=url, key=url, name="acme", plugin_name="acme", plugin_module="acme.plugin",
        distribution=None, version=None, specs=(), capabilities=frozenset(),
        is_volatile=is_volatile,
    )  # fmt: skip


def test_the_subject_of_a_url_is_described_without_opening_it() -> None:
    """Name, roles, capabilities of all roles, and what it's called in test ids."""
    subject = find_subject("memory:")

    assert subject.name == "memory"
    assert subject.roles == ("storage", "pubsub", "lease")
    assert {"memory", "pubsub.groups", "lease.watch"} <= subject.capabilities
    assert subject.label == "memory"
    assert subject.is_volatile
    assert subject.spec("lease").role == "lease"
    with pytest.raises(LookupError, match="offers no disk"):
        subject.spec("disk")


def test_an_unknown_scheme_is_a_typed_error() -> None:
    """As anywhere else in the product."""
    with pytest.raises(UnknownSchemeError):
        find_subject("nosuchthing://x")


@pytest.mark.parametrize(
    ("url", "place", "path"),
    [
        ("file:/tmp/x.db", "file:/tmp/x.ns.db", "/tmp/x.ns.db"),
        ("file:x.db?mode=rw&mastra_a=1", "file:x.ns.db?mode=rw&mastra_a=1", "x.ns.db"),
        ("jsonfile:///tmp/data", "jsonfile:///tmp/data.ns", "/tmp/data.ns"),
    ],
)
def test_a_file_gets_a_path_of_its_own_beside_the_given_one(
    url: str, place: str, path: str
) -> None:
    """Options stay; the test's file is on the same disk as the named one."""
    found = place_for(subject_at(url), namespace="ns", table_namespace="t")

    assert place == found.url
    assert Path(path) == found.path
    assert found.is_fresh


def test_memory_gets_a_name_of_its_own() -> None:
    """Two tests never share an in-process store."""
    found = place_for(subject_at("memory:", is_volatile=True), namespace="ns", table_namespace="t")

    assert found.url == "memory:ns"
    assert found.is_fresh


def test_a_server_is_shared_under_other_names() -> None:
    """Tables are cleaned, as they are too dear to be made anew for each test."""
    found = place_for(subject_at("acme://host/db"), namespace="ns", table_namespace="t")

    assert found.url == "acme://host/db"
    assert (found.namespace, found.table_namespace) == ("ns", "t")
    assert not found.is_fresh


def test_files_of_a_place_are_removed_with_their_companions(tmp_path: Path) -> None:
    """Journals, logs and folders go, the named file stays."""
    for name in ("x.db", "x.ns.db", "x.ns.db-wal", "x.ns.db-shm"):
        (tmp_path / name).touch()
    place = place_for(subject_at(f"file:{tmp_path}/x.db"), namespace="ns", table_namespace="t")

    place.remove_files()

    assert [tmp_path / "x.db"] == list(tmp_path.iterdir())


async def test_handles_of_one_place_see_the_same_data() -> None:
    """Two handles are two users of one store; another test's place is empty."""
    subject = find_subject("memory:")
    clock, ids = ShiftedClock(), UuidIds()
    one = Opener.for_test(subject, nodeid="a", seed=1, clock=clock, ids=ids)
    two = Opener.for_test(subject, nodeid="b", seed=1, clock=clock, ids=ids)

    async with one.storage() as first, one.storage() as second, two.storage() as other:
        await first.thread_state.set_state("t", "s", 1)

        assert await second.thread_state.get_state("t", "s") == 1
        assert await other.thread_state.get_state("t", "s") is None


async def test_an_opener_travels_to_another_process() -> None:
    """The same place, and a clock that is as far ahead."""
    subject = find_subject("memory:")
    clock = ShiftedClock(ahead_ms=5000)
    opener = Opener.for_test(subject, nodeid="a", seed=1, clock=clock, ids=UuidIds())

    copy = Opener.from_json(opener.to_json())

    assert copy.place == opener.place
    assert copy.subject == subject
    assert isinstance(copy.clock, ShiftedClock)
    assert copy.clock.ahead_ms == 5000


def test_namespaces_are_short_identifiers() -> None:
    """Different for each test and salt, the same for the same."""
    assert namespace_of("a::b").isidentifier()
    assert namespace_of("a", "1") == namespace_of("a", "1") != namespace_of("a", "2")
    assert len(namespace_of("x" * 1000)) < 20
