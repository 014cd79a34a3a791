"""The Lua scripts: all are there, all are right, and they look into JSON without harming it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from importlib.resources import files

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mastra_core.base import jsonjs
from mastra_core.base.isotime import from_epoch_ms, to_iso_ms
from mastra_core.errors import StorageDataError
from mastra_redis.pool import Server, open_server
from mastra_redis.scripts import NAMES, script_named
from mastra_redis.settings import RedisSettings

pytestmark = pytest.mark.anyio

#: Files that other scripts include.
PARTS = {"bus", "fences", "json", "leases", "memory", "merge", "runs", "times"}


@pytest.fixture
async def server(url: str) -> AsyncIterator[Server]:
    async with open_server(RedisSettings(url=url)) as opened:
        yield opened


def part(name: str) -> str:
    return (files("mastra_redis") / "scripts" / f"{name}.lua").read_text("utf-8")


def test_every_file_is_a_script_or_a_part_of_one() -> None:
    found = {path.name[:-4] for path in (files("mastra_redis") / "scripts").iterdir()}

    assert set(NAMES) | PARTS == found


async def test_the_server_understands_every_script(server: Server) -> None:
    told = await server.link.call("SCRIPT", "EXISTS", *(script_named(n).sha for n in NAMES))

    assert [1] * len(NAMES) == told


async def test_another_text_under_our_hash_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mastra_redis.scripts.script_named", lambda name: _Forged(name, "return 1"))

    with pytest.raises(StorageDataError, match="forged"):
        await server.scripts.load(["forged"])


class _Forged:
    def __init__(self, name: str, text: str) -> None:
        self.name, self.text, self.sha = name, text.encode(), "0" * 40


#: The server is one for all examples; a busy machine is slow.
_EXCUSED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=150, deadline=None, suppress_health_check=_EXCUSED)
@given(
    # Chosen before the test begins: what Hypothesis raises while it chooses would end the runner.
    chosen=st.dictionaries(st.text(max_size=5), json_values, min_size=1, max_size=4).flatmap(
        lambda value: st.tuples(st.just(value), st.sampled_from(sorted(value)))
    )
)
async def test_a_member_is_found_as_it_stands(
    server: Server, chosen: tuple[dict[str, object], str]
) -> None:
    """Whatever strings hold: quotes, braces, backslashes, NUL."""
    value, name = chosen
    text = jsonjs.encode(value)
    escaped = jsonjs.encode(name)[1:-1]

    found = await server.link.call(
        "EVAL", part("json") + "\nreturn member_of(ARGV[1], ARGV[2])", 0, text, escaped
    )

    assert value[name] == json.loads(found)


@settings(max_examples=100, deadline=None, suppress_health_check=_EXCUSED)
@given(ms=st.integers(-62_135_596_800_000, 253_402_300_799_999))
async def test_times_are_those_of_javascript(server: Server, ms: int) -> None:
    """There and back, over all years that can be written."""
    iso = to_iso_ms(from_epoch_ms(ms))

    there, back, later = await server.link.call(
        "EVAL",
        part("times")
        + "\nlocal ms = ms_of(ARGV[1])"
        + "\nreturn {string.format('%.0f', ms), iso_of(ms), next_time('0000', ARGV[1])}",
        0,
        iso,
    )

    assert ms == int(there)
    assert iso == back.decode()
    assert later > back or ms == 253_402_300_799_999
