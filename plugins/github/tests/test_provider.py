"""Verified deliveries reach the threads that subscribed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import pytest

from mastra_core import Agent, Mastra, WebhookRequest
from mastra_core.errors import ConfigError
from mastra_core.testing.scripted_model import ScriptedModel, text
from mastra_github import Delivery, GitHubSignals, sign, verify_signature
from mastra_github.mapping import resources_of_delivery
from mastra_github.samples import packaged_deliveries

pytestmark = pytest.mark.anyio

SECRET = "it's a secret"
T = {"thread_id": "t", "resource_id": "r"}
ALL = packaged_deliveries()


def request_of(delivery: Delivery, *, secret: str = SECRET, **headers: str) -> WebhookRequest:
    """The request that GitHub would send."""
    body = json.dumps(delivery.payload).encode()
    sent = {
        "X-GitHub-Event": delivery.event,
        "x-hub-signature-256": sign(body, secret),
        "Content-Type": "application/json",
        **headers,
    }
    return WebhookRequest(body=body, headers=sent)


@pytest.fixture
def github() -> GitHubSignals:
    return GitHubSignals(SECRET)


@pytest.fixture
async def mastra(github: GitHubSignals) -> AsyncIterator[Mastra]:
    """An application whose agent the provider tells."""
    agent = Agent(id="a", model=ScriptedModel([[text("ok")]] * 99), signals=[github])
    async with Mastra(storage="memory:", agents=[agent]) as opened:
        yield opened


async def inbox(mastra: Mastra, thread_id: str = "t") -> list[Any]:
    return list(await mastra.storage.notifications.list_notifications(thread_id=thread_id))


@pytest.mark.parametrize("delivery", ALL, ids=lambda d: d.event)
async def test_every_real_delivery_reaches_its_subscribers(
    mastra: Mastra, github: GitHubSignals, delivery: Delivery
) -> None:
    """By its repository or organisation; the record says what happened."""
    about = resources_of_delivery(delivery)[-1]
    await github.subscribe(about, **T)

    answer = await github.handle_webhook(request_of(delivery))

    assert (200, {"matched": 1}) == (answer.status, answer.body)
    (record,) = await inbox(mastra)
    assert "github" == record.source
    assert record.kind.startswith(delivery.event)
    assert delivery.payload == record.payload


async def test_a_pull_request_can_be_subscribed_to(mastra: Mastra, github: GitHubSignals) -> None:
    """A thread with both hears once; other numbers are not its own."""
    delivery = next(d for d in ALL if d.event == "pull_request")
    name = delivery.payload["repository"]["full_name"]
    number = delivery.payload["pull_request"]["number"]
    await github.subscribe(f"{name}#{number}", **T)
    await github.subscribe(name, **T)
    await github.subscribe(f"{name}#{number + 1}", thread_id="other", resource_id="r")

    answer = await github.handle_webhook(request_of(delivery))

    assert {"matched": 1} == answer.body
    assert (1, 0) == (len(await inbox(mastra)), len(await inbox(mastra, "other")))


@pytest.mark.parametrize(
    "header",
    ["", "sha256=", "sha256=00", "sha1=0123", sign(b"other", SECRET), sign(b"", "x"), "\u00e4"],
)
async def test_without_a_right_signature_nothing_happens(
    mastra: Mastra, github: GitHubSignals, header: str
) -> None:
    """The answer is 401 whatever else is wrong."""
    await github.subscribe(ALL[0].payload["repository"]["full_name"], **T)
    sent = request_of(ALL[0])

    forged = WebhookRequest(body=sent.body, headers={**sent.headers, "x-hub-signature-256": header})
    missing = WebhookRequest(body=sent.body, headers={"X-GitHub-Event": "ping"})
    changed = WebhookRequest(body=bytes(sent.body) + b" ", headers=sent.headers)  # type: ignore[arg-type]  # it is bytes

    answers = [await github.handle_webhook(r) for r in (forged, missing, changed)]
    assert [401, 401, 401] == [answer.status for answer in answers]
    assert [] == await inbox(mastra)


async def test_an_old_secret_is_good_while_it_is_replaced() -> None:
    """Both are tried; others are not known."""
    both = GitHubSignals(["new", "old"])

    answers = [
        await both.handle_webhook(request_of(ALL[0], secret=secret))
        for secret in ("new", "old", "older")
    ]

    assert [200, 200, 401] == [answer.status for answer in answers]


async def test_a_webhook_may_send_a_form(mastra: Mastra, github: GitHubSignals) -> None:
    """The signature is that of the form."""
    name = ALL[0].payload["repository"]["full_name"]
    await github.subscribe(name, **T)
    body = urlencode({"payload": json.dumps(ALL[0].payload)}).encode()
    headers = {
        "X-GitHub-Event": ALL[0].event,
        "X-Hub-Signature-256": sign(body, SECRET),
        "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
    }

    answer = await github.handle_webhook(WebhookRequest(body=body, headers=headers))

    assert {"matched": 1} == answer.body


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ({"parsed": True}, {}, 400),
        (b"[]", {"X-GitHub-Event": "push"}, 400),
        (b"{", {"X-GitHub-Event": "push"}, 400),
        (b"{}", {}, 400),
        ("{}", {"X-GitHub-Event": "push"}, 200),
        (
            b"%%%",
            {"X-GitHub-Event": "push", "Content-Type": "application/x-www-form-urlencoded"},
            400,
        ),
    ],
)
async def test_what_is_no_delivery_is_refused(
    github: GitHubSignals, body: Any, headers: dict[str, str], status: int
) -> None:
    """Also with a right signature."""
    raw = body.encode() if isinstance(body, str) else body
    if isinstance(raw, bytes):
        headers = {**headers, "X-Hub-Signature-256": sign(raw, SECRET)}

    answer = await github.handle_webhook(WebhookRequest(body=body, headers=headers))

    assert status == answer.status


async def test_a_body_above_the_limit_isnt_read() -> None:
    """Its signature isn't even computed."""
    small = GitHubSignals(SECRET, max_body_bytes=10)

    assert 413 == (await small.handle_webhook(request_of(ALL[0]))).status


def test_signatures_are_those_of_github() -> None:
    """The example of GitHub's documentation."""
    secret, body = "It's a Secret to Everybody", b"Hello, World!"
    expected = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

    assert expected == sign(body, secret)
    assert verify_signature(body, expected, [secret])


@pytest.mark.parametrize("secret", ["", [], ["a", ""], [3]])
def test_a_secret_is_needed(secret: Any) -> None:
    """A provider that anybody can write to is refused."""
    with pytest.raises(ConfigError, match="need a secret"):
        GitHubSignals(secret)


@pytest.mark.parametrize("limit", [0, "many"])
def test_the_limit_is_a_positive_number(limit: Any) -> None:
    with pytest.raises(ConfigError, match="positive number"):
        GitHubSignals(SECRET, max_body_bytes=limit)


def test_the_secret_isnt_shown() -> None:
    assert SECRET not in repr(GitHubSignals(SECRET))


async def test_a_configuration_makes_one_by_its_name() -> None:
    """The plugin offers ``github``; options that it doesn't know are refused."""
    made = Mastra(storage="memory:").make_signal_provider("github", secrets=[SECRET])

    assert isinstance(made, GitHubSignals)
    assert 200 == (await made.handle_webhook(request_of(ALL[0]))).status
    with pytest.raises(ConfigError):
        Mastra(storage="memory:").make_signal_provider("github", secret=SECRET)
