"""``unicode-normalizer``: one spelling, and emoji as they are."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_core.errors import ConfigError, UnknownSettingError
from mastra_core.testing.scripted_model import text
from mastra_processors import UnicodeNormalizer


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("ﬁne　ｗｏｒｄｓ", "fine words"),
        ("e\u0301", "é"),
        ("  a \t b\r\n\r\n\nc  ", "a b\nc"),
        ("™️ 🅰 🈚 👩‍💻 1️⃣ ™", "™️ 🅰 🈚 👩‍💻 1️⃣ TM"),
        ("", ""),
    ],
)
def test_text_is_in_its_compatible_form(given: str, expected: str) -> None:
    assert expected == UnicodeNormalizer().normalized(given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a\x00b\x1bc", "abc"),
        ("in\u202evis\u200bible\ufeff", "invisible"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("👩‍💻 🏴\U000e0067\U000e0062\U000e007f", "👩‍💻 🏴\U000e0067\U000e0062\U000e007f"),
        ("hidden\U000e0068\U000e0069", "hidden"),
        ("a\tb\nc", "a b\nc"),
    ],
)
def test_control_characters_go_if_wanted(given: str, expected: str) -> None:
    assert expected == UnicodeNormalizer(strip_control_chars=True).normalized(given)


def test_each_option_switches_one_thing() -> None:
    assert " a  b " == UnicodeNormalizer(collapse_whitespace=False, trim=False).normalized(" a  b ")
    assert " a b " == UnicodeNormalizer(trim=False).normalized(" a  b ")
    assert "TM" == UnicodeNormalizer(preserve_emojis=False).normalized("™️").strip("\ufe0f")


@pytest.mark.anyio
async def test_the_model_and_the_store_get_the_same_spelling(
    make_agent: Any, prompt_of: Any
) -> None:
    agent = make_agent([text("ok")], input_processors=[UnicodeNormalizer()])

    await agent.generate("ﬁne", thread_id="t1", resource_id="u1")

    assert "user:fine" == prompt_of(agent)
    page = await agent.memory.store.list_messages("t1")
    assert "fine" == page.messages[0].content["parts"][0]["text"]
    assert "fine" == page.messages[0].content["content"]


def test_a_wrong_option_is_an_error_that_lists_the_right_ones() -> None:
    with pytest.raises(UnknownSettingError, match="preserve_emojis"):
        UnicodeNormalizer(preserve_emoji=True)
    with pytest.raises(ConfigError, match="trim"):
        UnicodeNormalizer(trim="perhaps")
