"""What URLs and options mean."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from mastra_core.errors import InvalidUrlError
from mastra_postgres.settings import PostgresSettings


@pytest.mark.parametrize(
    ("url", "conninfo"),
    [
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("postgres://u@h/db?sslmode=require", "postgres://u@h/db?sslmode=require"),
        ("postgresql+psycopg://u@h/db", "postgresql://u@h/db"),
        ("postgresql:///db?host=/run/pg", "postgresql:///db?host=/run/pg"),
        ("postgresql://h/db?mastra_prefix=a_&options=-c%20x%3D1", "postgresql://h/db?options=-c%20x%3D1"),
    ],
)  # fmt: skip
def test_what_is_not_ours_goes_to_libpq(url: str, conninfo: str) -> None:
    assert conninfo == PostgresSettings(url=url).conninfo


def test_options_in_the_url_are_taken_out_of_it() -> None:
    settings = PostgresSettings(
        url="postgresql://h/db?mastra_schema=agents&mastra_pool_size=9&mastra_disable_init=true"
    )

    assert ("agents", 9, True) == (
        settings.schema_name,
        settings.pool_size,
        settings.disable_init,
    )
    assert "postgresql://h/db" == settings.url


def test_an_option_given_apart_wins() -> None:
    settings = PostgresSettings(url="postgresql://h/db?mastra_pool_size=9", pool_size=2)

    assert 2 == settings.pool_size


@pytest.mark.parametrize("url", ["mysql://h/db", "file:x", "h/db", ""])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidUrlError):
        _ = PostgresSettings(url=url).conninfo


@pytest.mark.parametrize(
    "option",
    [
        "mastra_nonsense=1",
        "mastra_pool_size=0",
        "mastra_schema=a;b",
        "mastra_prefix=a-b",
        "mastra_prefix=this_prefix_is_too_long_for_names_",
        "mastra_naive_timezone=Mars/Olympus",
        "mastra_prepared_statements=maybe",
    ],
)
def test_options_that_make_no_sense_are_refused(option: str) -> None:
    with pytest.raises(ValidationError):
        PostgresSettings(url=f"postgresql://h/db?{option}")


def test_secrets_are_not_shown() -> None:
    settings = PostgresSettings(url="postgresql://u:s3cret@h/db?password=s3cret")

    assert "s3cret" not in settings.where
    assert "postgresql://u:" in settings.where
