"""Clock, ids, names, redaction, sentinels and telemetry do what they say."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import time
from datetime import UTC
from uuid import RFC_4122, UUID

import pytest

from mastra_core.base.clock import Clock, SystemClock
from mastra_core.base.ids import Ids, UuidIds, uuid5
from mastra_core.base.naming import (
    clean_xml_name,
    is_plugin_id,
    is_xml_name,
    prefix_of,
    to_camel,
    to_snake,
)
from mastra_core.base.redact import redact_text, redact_url
from mastra_core.base.telemetry import Meter, NoopMeter, NoopTracer, Span, Tracer
from mastra_core.base.unset import UNDEFINED, UNSET


def test_the_system_clock_tells_whole_milliseconds_in_utc() -> None:
    """A time taken now equals its stored self."""
    clock = SystemClock()
    before = time.time_ns() // 1_000_000

    now, now_ms = clock.now(), clock.now_ms()

    assert isinstance(clock, Clock)
    assert now.tzinfo is UTC
    assert now.microsecond % 1000 == 0
    assert before <= now_ms
    assert before <= round(now.timestamp() * 1000)
    assert clock.monotonic() <= clock.monotonic()


@pytest.mark.anyio
async def test_the_system_clock_sleeps() -> None:
    """Negative times only let others run."""
    clock = SystemClock()
    started = clock.monotonic()

    await clock.sleep(-1)
    await clock.sleep(0.01)

    assert clock.monotonic() - started >= 0.01


def test_new_ids_differ() -> None:
    """Random ids, whatever they are for."""
    ids = UuidIds()

    assert isinstance(ids, Ids)
    assert len({ids.new(), ids.new("run"), ids.new("message", thread_id="t")}) == 3


def test_random_ids_are_uuids_of_version_4() -> None:
    """Other systems may check them, and there are as many as anybody wants."""
    ids = UuidIds()

    found = [UUID(ids.new()) for _ in range(300)]

    assert len(set(found)) == 300
    assert {(4, RFC_4122)} == {(each.version, each.variant) for each in found}
    assert str(found[0]).count("-") == 4


_FORK = """
import os
from mastra_core.base.ids import UuidIds

ids = UuidIds()
ids.new()
is_child = os.fork() == 0
if not is_child:
    os.wait()
print(ids.new(), flush=True)
"""


def test_a_forked_process_makes_ids_of_its_own() -> None:
    """Ids that lie ready in the parent aren't used twice."""
    done = subprocess.run([sys.executable, "-c", _FORK], capture_output=True, check=True)

    child, parent = done.stdout.split()
    assert child != parent


def test_ids_of_facts_are_the_same_everywhere() -> None:
    """Changing one of these values would make every signal be sent twice after an upgrade."""
    assert uuid5("t1", "n1", "full", 1) == "c0e82615-f6a3-51e7-96cc-b57413525091"
    assert uuid5("a", "b") != uuid5("ab")
    assert uuid5("a", 1) != uuid5("a", "1")
    assert uuid5(["a"], 1.0) == uuid5(("a",), 1)


@pytest.mark.parametrize(
    ("snake", "camel"),
    [("thread_id", "threadId"), ("id", "id"), ("created_at_ms", "createdAtMs")],
)
def test_names_change_between_python_and_the_wire(snake: str, camel: str) -> None:
    """Both ways."""
    assert to_camel(snake) == camel
    assert to_snake(camel) == snake


def test_capitals_in_a_row_are_one_word() -> None:
    """Acronyms."""
    assert to_snake("HTTPStatus") == "http_status"
    assert to_snake("runID2") == "run_id2"


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("postgres", True), ("unix_socket", True), ("a1", True), ("", False), ("1a", False)]
    + [(name, False) for name in ("Post", "a-b", "a\n", "é")],
)
def test_plugin_ids(name: str, allowed: bool) -> None:
    """Lower case, digits, underscores."""
    assert is_plugin_id(name) is allowed


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("pr", "pr"),
        ("_a.b-c", "_a.b-c"),
        ("1a", "_1a"),
        ("a b", "a_b"),
        ("é", "_"),
        ("", "_"),
        ("-x", "_-x"),
        ("a\n", "a_"),
    ],
)
def test_xml_names(name: str, cleaned: str) -> None:
    """Bad names of others are replaced by the nearest allowed one."""
    assert clean_xml_name(name) == cleaned
    assert is_xml_name(name) is (name == cleaned)
    assert is_xml_name(cleaned)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@h/db", "postgresql://u:***@h/db"),
        (
            "postgresql://u:p@ss@h:5432/db?sslmode=require",
            "postgresql://u:***@h:5432/db?sslmode=require",
        ),
        ("redis://:p@h", "redis://:***@h"),
        ("redis://u:@h", "redis://u:@h"),
        (
            "mongodb+srv://u:p@a,b/db?authSource=admin",
            "mongodb+srv://u:***@a,b/db?authSource=admin",
        ),
        ("libsql://h?authToken=ey.J&tls=0", "libsql://h?authToken=***&tls=0"),
        ("libsql://ghp_0123456789abcdefghij@h", "libsql://***@h"),
        ("postgresql://user@h/db", "postgresql://user@h/db"),
        (
            "https://h/x?key=abc&api_key=d&x-signature=e&max_tokens=5#token=f",
            "https://h/x?key=***&api_key=***&x-signature=***&max_tokens=5#token=***",
        ),
        ("postgresql:///db?password=p%20q&user=u", "postgresql:///db?password=***&user=u"),
        ("file:a@b.db", "file:a@b.db"),
        ("memory:", "memory:"),
        ("not a url", "not a url"),
        ("https://h/path@x:y", "https://h/path@x:y"),
        ("https://h?password=", "https://h?password="),
    ],
)
def test_urls_are_shown_without_their_secrets(url: str, shown: str) -> None:
    """Passwords and token-like values are replaced; the rest stays readable."""
    assert redact_url(url) == shown
    assert redact_url(shown) == shown


def test_sentences_with_urls_are_redacted() -> None:
    """A driver's message may quote the URL."""
    text = "can't reach 'redis://u:p@h/0?token=x' or http://h"

    assert redact_text(text) == "can't reach 'redis://u:***@h/0?token=***' or http://h"


@pytest.mark.parametrize("sentinel", [UNSET, UNDEFINED])
def test_sentinels_stay_themselves(sentinel: object) -> None:
    """They are false, print their name and survive copies."""
    assert not sentinel
    assert repr(sentinel) in {"UNSET", "UNDEFINED"}
    assert copy.deepcopy(sentinel) is sentinel
    assert pickle.loads(pickle.dumps(sentinel)) is sentinel


def test_telemetry_without_listeners_does_nothing() -> None:
    """The runtime calls it without asking whether anyone listens."""
    tracer, meter = NoopTracer(), NoopMeter()
    assert isinstance(tracer, Tracer)
    assert isinstance(meter, Meter)

    def fails_inside() -> None:
        with tracer.span("run", {"run.id": "r"}) as span:
            use(span)
            raise KeyError

    def use(span: Span) -> None:
        assert isinstance(span, Span)
        span.set_attribute("a", 1)
        span.add_event("started")
        span.record_error(ValueError())
        meter.counter("runs").add(1, {"ok": True})
        meter.histogram("time").record(2.5)

    with pytest.raises(KeyError):
        fails_inside()


@pytest.mark.parametrize(
    ("namespace", "longest", "expected"),
    [
        ("", None, ""),
        ("app", None, "app_"),
        ("my app/1", None, "my_app_1_"),
        ("1st", None, "_1st_"),
        ("a" * 20, 20, "a" * 20 + "_"),
        ("a" * 30, 20, "a" * 11 + "_3a54fc0c_"),
    ],
)
def test_a_namespace_becomes_a_prefix(namespace: str, longest: int | None, expected: str) -> None:
    found = prefix_of(namespace, longest=longest)

    assert expected == found
