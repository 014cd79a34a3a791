"""The numbers of the inbox, as people write them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from mastra_core.errors import ConfigError
from mastra_core.notifications import NotificationSettings, settings_from
from mastra_core.notifications.failures import error_text, retry_delay_ms


@pytest.mark.parametrize(
    "given",
    [
        {"dispatch": {"batchSize": 7, "enabled": False}},
        {"batch_size": 7, "enabled": False},
        NotificationSettings(batch_size=7, enabled=False),
    ],
)
def test_settings_have_two_spellings_and_an_outer_name(given: Any) -> None:
    """As the TypeScript host takes them, or as they are called here."""
    settings = settings_from(given)

    assert (7, False, "*/1 * * * *") == (settings.batch_size, settings.enabled, settings.cron)


def test_nothing_given_is_the_default() -> None:
    """None and an empty mapping."""
    assert NotificationSettings() == settings_from(None) == settings_from({})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"batchsize": 1}, "Unknown notification setting 'batchsize'"),
        ({"batch_size": 0}, "batch_size"),
        ({"poll_ms": True}, "poll_ms"),
        ({"visibility_ms": 1.5}, "visibility_ms"),
        ({"retry_jitter": 1}, "retry_jitter"),
        ("on", "a mapping"),
    ],
)
def test_a_wrong_setting_says_what_is_wrong(given: Any, text: str) -> None:
    """The name, and what is allowed."""
    with pytest.raises(ConfigError, match=text):
        settings_from(given)


def test_pauses_double_up_to_a_cap() -> None:
    """30 s, 60 s … 15 min, each spread by a tenth."""
    settings = NotificationSettings()
    random = Random(1)

    pauses = [retry_delay_ms(failures, settings, random) / 1000 for failures in range(1, 60)]

    assert all(
        0.9 * full <= pause <= 1.1 * full
        for full, pause in zip((30, 60, 120, 240, 480), pauses, strict=False)
    )
    assert max(pauses) <= 900
    assert min(pauses[6:]) >= 810


def test_an_error_without_a_text_is_called_by_its_name() -> None:
    """Somebody reads it in the record."""
    assert ("TimeoutError", "no") == (error_text(TimeoutError()), error_text(ValueError("no")))
