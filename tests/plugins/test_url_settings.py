"""Settings that also come from the URL when somebody makes them by hand."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from mastra_core.plugins.url_settings import UrlSettings


class Settings(UrlSettings):
    size: int = 1
    name: str = ""


def test_options_of_the_url_are_taken_out_of_it() -> None:
    found = Settings(url="acme://db/app?tls=1&mastra_size=8&mastra_name=a+b%2Fc")

    assert ("acme://db/app?tls=1", 8, "a b/c") == (found.url, found.size, found.name)


def test_what_is_given_apart_wins() -> None:
    assert 2 == Settings(url="acme://db?mastra_size=8", size=2).size


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(ValidationError, match="sizes"):
        Settings(url="acme://db?mastra_sizes=8")


def test_an_option_stands_there_once() -> None:
    with pytest.raises(ValidationError, match="'mastra_size' twice"):
        Settings(url="acme://db?mastra_size=8&mastra_size=9")


def test_a_url_is_a_text() -> None:
    with pytest.raises(ValidationError):
        Settings(url=5)  # type: ignore[arg-type]  # that is the point
