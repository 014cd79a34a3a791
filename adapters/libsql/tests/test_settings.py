"""What URLs and options mean."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from mastra_core.errors import InvalidUrlError
from mastra_libsql.settings import LibSQLSettings, TargetKind


@pytest.mark.parametrize("url", [":memory:", "file::memory:"])
def test_memory_has_no_file(url: str) -> None:
    target = LibSQLSettings(url=url).target

    assert TargetKind.MEMORY is target.kind
    assert target.is_embedded


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:/srv/app.db", "/srv/app.db"),
        ("file:///srv/app.db", "/srv/app.db"),
        ("file://localhost/srv/app.db", "/srv/app.db"),
        ("file:/srv/my%20app.db", "/srv/my app.db"),
        ("file:app.db", str(Path("app.db").absolute())),
    ],
)
def test_a_file_is_found_by_its_path(url: str, path: str) -> None:
    target = LibSQLSettings(url=url).target

    assert TargetKind.FILE is target.kind
    assert path == target.address


@pytest.mark.parametrize(
    ("url", "driver", "kind", "address"),
    [
        ("libsql://db.example", None, TargetKind.WEBSOCKET, "wss://db.example"),
        ("libsql://db.example", "https", TargetKind.HTTP, "https://db.example"),
        ("libsql+http://localhost:80", None, TargetKind.HTTP, "http://localhost:80"),
        ("libsql+ws://localhost:80", None, TargetKind.WEBSOCKET, "ws://localhost:80"),
        ("libsql+wss://h/ns", None, TargetKind.WEBSOCKET, "wss://h/ns"),
        ("https://db.example", None, TargetKind.HTTP, "https://db.example"),
        ("libsql://localhost:80?tls=0", None, TargetKind.WEBSOCKET, "ws://localhost:80"),
    ],
)
def test_a_server_is_reached_by_the_protocol_of_the_url(
    url: str, driver: str | None, kind: TargetKind, address: str
) -> None:
    target = LibSQLSettings.model_validate({"url": url, "driver": driver}).target

    assert (kind, address) == (target.kind, target.address)


def test_a_token_in_the_url_leaves_the_address() -> None:
    target = LibSQLSettings(url="libsql://db.example?authToken=s3cret").target

    assert "wss://db.example" == target.address
    assert target.auth_token is not None
    assert "s3cret" == target.auth_token.get_secret_value()
    assert "s3cret" not in repr(target)


@pytest.mark.parametrize(
    "url", ["postgresql://h/db", "file:", "file:dir/", "file://elsewhere/app.db", "libsql://", "x"]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidUrlError):
        _ = LibSQLSettings(url=url).target


def test_options_in_the_url_are_taken_out_of_it() -> None:
    settings = LibSQLSettings(url="file:app.db?mastra_busy_timeout_ms=7")

    assert 7 == settings.busy_timeout_ms
    assert "file:app.db" == settings.url
    assert TargetKind.FILE is settings.target.kind


@pytest.mark.parametrize(
    "url", ["file:app.db?mode=ro", "file:app.db?busy_timeout=7", ":memory:?mode=ro"]
)
def test_parameters_that_would_do_nothing_are_refused(url: str) -> None:
    """Whoever asks for a read-only file must not get one that is written."""
    with pytest.raises(InvalidUrlError, match=r"unknown parameter '(mode|busy_timeout)'"):
        _ = LibSQLSettings(url=url).target


def test_unknown_options_are_refused() -> None:
    with pytest.raises(ValidationError):
        LibSQLSettings.model_validate({"url": "file:app.db", "pool_size": 3})
