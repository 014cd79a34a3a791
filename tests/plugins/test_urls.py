"""URLs that choose an adapter are taken apart without changing what the driver gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mastra_core.errors import InvalidUrlError
from mastra_core.plugins.urls import parse_adapter_url

#: URL, scheme, driver, what the driver gets, path, volatile
FORMS = [
    ("memory:", "memory", None, "memory:", "", True),
    ("memory:name", "memory", None, "memory:name", "name", True),
    ("file:path.db", "file", None, "file:path.db", "path.db", False),
    ("file:/abs/x.db", "file", None, "file:/abs/x.db", "/abs/x.db", False),
    ("file:///abs/x.db", "file", None, "file:///abs/x.db", "/abs/x.db", False),
    ("file::memory:", "file", None, "file::memory:", ":memory:", True),
    (":memory:", "file", None, ":memory:", ":memory:", True),
    (":memory:?mastra_prefix=a", "file", None, ":memory:", ":memory:", True),
    ("libsql://host/db", "libsql", None, "libsql://host/db", "host/db", False),
    ("libsql+http://h:8080", "libsql", "http", "libsql://h:8080", "h:8080", False),
    ("libsql+https://h", "libsql", "https", "libsql://h", "h", False),
    ("libsql+ws://h", "libsql", "ws", "libsql://h", "h", False),
    ("libsql+wss://h", "libsql", "wss", "libsql://h", "h", False),
    ("postgresql://u:p@h/d", "postgresql", None, "postgresql://u:p@h/d", "u:p@h/d", False),
    ("postgres://h/d", "postgres", None, "postgres://h/d", "h/d", False),
    ("postgresql+psycopg://h/d", "postgresql", "psycopg", "postgresql://h/d", "h/d", False),
    ("POSTGRESQL://h/D", "postgresql", None, "postgresql://h/D", "h/D", False),
    ("mongodb://a,b/d?x=1", "mongodb", None, "mongodb://a,b/d?x=1", "a,b/d", False),
    ("mongodb+srv://h/d", "mongodb+srv", None, "mongodb+srv://h/d", "h/d", False),
    ("redis://h:1/0", "redis", None, "redis://h:1/0", "h:1/0", False),
    ("rediss://h", "rediss", None, "rediss://h", "h", False),
    ("redis+unix:///s.sock", "redis+unix", None, "redis+unix:///s.sock", "/s.sock", False),
    ("unix:/run/m.sock", "unix", None, "unix:/run/m.sock", "/run/m.sock", False),
    ("acme+fast://h", "acme", "fast", "acme://h", "h", False),
]


@pytest.mark.parametrize(("text", "expected"), [(f[0], f[1:]) for f in FORMS])
def test_known_forms(text: str, expected: tuple[str, str | None, str, str, bool]) -> None:
    """The table of design 4.4."""
    url = parse_adapter_url(text)

    assert expected == (url.scheme, url.driver, url.driver_url, url.path, url.is_volatile)


def test_a_scheme_of_a_plugin_is_taken_as_a_whole() -> None:
    """``+`` may belong to the scheme."""
    url = parse_adapter_url("acme+fast://h", schemes={"acme+fast"})

    assert ("acme+fast", None) == (url.scheme, url.driver)


def test_our_parameters_are_taken_out_and_the_rest_stays_as_written() -> None:
    """The driver sees the same characters, even odd ones."""
    url = parse_adapter_url(
        "postgresql://u:p%40w@h/d?a=%41+b&mastra_schema=my%20one&sslmode&mastra_pool_size=3&&c#f?x"
    )

    assert "postgresql://u:p%40w@h/d?a=%41+b&sslmode&&c#f?x" == url.driver_url
    assert {"schema": "my one", "pool_size": "3"} == dict(url.options)


def test_a_query_of_our_parameters_only_disappears() -> None:
    """No question mark is left behind."""
    assert "file:x.db" == parse_adapter_url("file:x.db?mastra_prefix=a").driver_url


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h:port/d",
        "postgresql+psycopg://u:p@a:1,b:x/d",
        "postgres://h:65536",
        "redis://h:-1",
        "rediss://u:p@[::1]:x/0",
        "mongodb://a:27017,b:99999/d",
        "mongodb://u:geheim/x@h/d",
        "libsql+http://h:٣",
        "libsql+ws://h:1:2",
    ],
)
def test_a_port_that_is_none_is_refused(url: str) -> None:
    """Before any driver is asked; never telling what may be part of a password."""
    with pytest.raises(InvalidUrlError, match="port is no number up to 65535") as caught:
        parse_adapter_url(url)

    assert "geheim" not in f"{caught.value} {caught.value.details}"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:///d?host=/run/postgresql",
        "postgresql://%2Frun%2Fpostgresql/d",
        "postgresql://a:1,b:,[::1]:5432,c/d?port=x",
        "postgresql://u:p:w@h:0/d",
        "mongodb://%2Ftmp%2Fmongodb-27017.sock/d",
        "redis+unix:///run/redis:1.sock",
        "redis://:p%40w@[fe80::1%25eth0]:65535/0",
        "file://h:x/y.db",
        "acme://h:x",
    ],
)
def test_other_hosts_and_ports_are_left_to_the_driver(url: str) -> None:
    assert url == parse_adapter_url(url, schemes={"acme"}).raw


@pytest.mark.parametrize("scheme", ["http", "https", "ws", "wss", "HTTPS"])
def test_web_schemes_are_refused_with_the_way_out(scheme: str) -> None:
    """As a selector they are ambiguous."""
    with pytest.raises(InvalidUrlError) as caught:
        parse_adapter_url(f"{scheme}://db.example?authToken=geheim")

    assert f"'libsql+{scheme.lower()}://'" in str(caught.value)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "  ", "app.db", "C:\\x.db", "C:/x.db", "//h/d", "1x:y"])
def test_what_is_no_url_is_refused(text: str) -> None:
    """It is an error of the user's input, so it is a ValueError, too."""
    with pytest.raises(ValueError, match="is not a valid adapter URL"):
        parse_adapter_url(text)


def test_a_bare_path_gets_a_hint() -> None:
    """Most likely a file was meant."""
    with pytest.raises(InvalidUrlError) as caught:
        parse_adapter_url("app.db")

    assert "For a file write file:app.db" == caught.value.hint


def test_an_option_given_twice_is_refused() -> None:
    """Which one would count?"""
    with pytest.raises(InvalidUrlError, match="it has 'mastra_a' twice"):
        parse_adapter_url("file:x?mastra_a=1&mastra_a=2")


def test_secrets_are_shown_nowhere() -> None:
    """Neither by str nor by repr."""
    url = parse_adapter_url("postgresql://u:geheim@h/d?token=geheim")

    assert "geheim" not in f"{url} {url!r} {url.redacted}"
    assert "postgresql://" == url.prefix


@pytest.mark.parametrize("start", ["file:", "postgresql://u:p%40@h:5432,[::1]:1/"])
@given(rest=st.text(alphabet="abAB01:/@%+-_.,?&=#~", max_size=40))
def test_without_our_parameters_everything_after_the_scheme_is_kept(start: str, rest: str) -> None:
    """Nothing is decoded and written anew."""
    if "mastra_" in rest:
        return
    assert f"{start}{rest}" == parse_adapter_url(f"{start}{rest}").driver_url
