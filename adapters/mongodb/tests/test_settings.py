"""What URLs and options mean."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from mastra_core.errors import InvalidUrlError
from mastra_mongodb.settings import MongoSettings


@pytest.mark.parametrize(
    ("url", "database"),
    [
        ("mongodb://localhost", "mastra"),
        ("mongodb://localhost/", "mastra"),
        ("mongodb://localhost/shop", "shop"),
        ("mongodb://u:p@a:1,b:2/my%2Dshop?replicaSet=rs0", "my-shop"),
        ("mongodb+srv://cluster.example/shop?retryWrites=true", "shop"),
        ("mongodb://localhost/shop?mastra_database=other", "other"),
    ],
)
def test_the_database_is_in_the_path_or_an_option(url: str, database: str) -> None:
    assert database == MongoSettings(url=url).database_name


def test_our_options_leave_the_url_of_the_driver() -> None:
    settings = MongoSettings(
        url="mongodb://localhost/shop?replicaSet=rs0&mastra_pool_size=7&tls=true&mastra_poll_ms=20"
    )

    assert "mongodb://localhost/shop?replicaSet=rs0&tls=true" == settings.url
    assert (7, 20) == (settings.pool_size, settings.poll_ms)


def test_what_is_given_apart_wins() -> None:
    settings = MongoSettings(url="mongodb://localhost/?mastra_pool_size=7", pool_size=9)

    assert 9 == settings.pool_size


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ValidationError, match="no_such"):
        MongoSettings(url="mongodb://localhost/?mastra_no_such=1")


@pytest.mark.parametrize("url", ["redis://localhost", "localhost", "mongo://localhost"])
def test_other_addresses_are_none_of_ours(url: str) -> None:
    with pytest.raises(InvalidUrlError):
        _ = MongoSettings(url=url).address


@pytest.mark.parametrize("name", ["a/b", "a b", "a.b", "$x", ""])
def test_names_that_no_database_can_have_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        MongoSettings(url="mongodb://localhost", database=name)
