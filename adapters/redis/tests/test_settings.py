"""URLs and options."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from mastra_core.plugins import PluginManager, open_storage, parse_adapter_url
from mastra_redis import RedisLeaseSettings, RedisPubSubSettings, RedisSettings, RedisStorage
from mastra_redis.keys import fence_key, join, split
from mastra_redis.pool import place_of_url

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("url", "driver_url"),
    [
        ("redis://h:1/2", "redis://h:1/2"),
        ("rediss://u:p@h/0?ssl_cert_reqs=none", "rediss://u:p@h/0?ssl_cert_reqs=none"),
        ("redis+unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
        ("redis://h?mastra_prefix=a&mastra_mixed_fleet=no", "redis://h"),
    ],
)
def test_the_driver_gets_its_part_of_a_url(url: str, driver_url: str) -> None:
    assert driver_url == RedisSettings(url=url).driver_url


def test_options_of_a_url_are_options() -> None:
    settings = RedisSettings(url="redis://h?mastra_prefix=a%3A&mastra_mixed_fleet=false")

    assert ("a:", False) == (settings.prefix, settings.mixed_fleet)
    assert "b" == RedisSettings(url="redis://h?mastra_prefix=a", prefix="b").prefix


@pytest.mark.parametrize("kind", [RedisSettings, RedisPubSubSettings, RedisLeaseSettings])
def test_an_unknown_option_is_refused(
    kind: type[RedisSettings | RedisPubSubSettings | RedisLeaseSettings],
) -> None:
    with pytest.raises(ValidationError, match="nonsense"):
        kind.model_validate({"url": "redis://h?mastra_nonsense=1"})


def test_a_password_is_never_part_of_a_place() -> None:
    assert "h:1/2" == place_of_url("redis://user:secret@h:1/2?mastra_prefix=x")
    assert "/run/r.sock" == place_of_url("redis+unix:///run/r.sock")


def test_roles_of_one_url_share_their_connection() -> None:
    url = "redis://h/0"

    keys = {
        RedisSettings(url=url, prefix="a").connection_key(),
        RedisPubSubSettings(url=url, ack_wait_ms=1).connection_key(),
        RedisPubSubSettings(url=url).lease_settings().connection_key(),
    }

    assert 1 == len(keys)


@pytest.mark.parametrize(
    ("key", "fence"),
    [
        (b"a:lease:k", b"{a:lease:k}:fence"),
        (b"a:lease:{k}", b"a:lease:{k}:fence"),
        (b"a:lease:{}k", b"{a:lease:{}k}:fence"),
    ],
)
def test_a_fence_lies_where_its_lease_lies(key: bytes, fence: bytes) -> None:
    assert fence == fence_key(key)


@pytest.mark.parametrize("names", [["a"], ["a", "b"], ["\0", "\0\x01"], ["", "ü"], ["\ud800"]])
def test_joined_names_come_apart_again(names: list[str]) -> None:
    assert names == split(join(*names))


def test_joined_names_sort_as_tuples() -> None:
    names = [("a", "b"), ("a", "\0"), ("a\0", "a"), ("", "z"), ("a\x01", "a"), ("a", "")]

    assert sorted(names) == [tuple(split(member)) for member in sorted(join(*n) for n in names)]


async def test_three_ways_to_open_a_store(url: str, namespace: str) -> None:
    """By class, by URL with options, by the registry."""
    option = f"{url}?mastra_prefix={namespace}:"
    async with RedisStorage(url, prefix=f"{namespace}:") as store:
        await store.thread_state.set_state("t", "x", 1)
    async with RedisStorage(option) as store:
        assert 1 == await store.thread_state.get_state("t", "x")
    manager = PluginManager([])
    target = parse_adapter_url(option, schemes=manager.schemes())
    async with open_storage(target, manager) as opened:
        assert 1 == await opened.thread_state.get_state("t", "x")
        await opened.dangerously_clear_all()
