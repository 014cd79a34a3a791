"""``python -m mastra_core``: a look at the installation without the CLI package."""

from __future__ import annotations

import json

import pytest

from mastra_core.__main__ import main


def test_plugins_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """The built-in one is always there."""
    assert 0 == main(["plugins", "inmemory", "--json"])

    listed = json.loads(capsys.readouterr().out)["plugins"]
    assert [("inmemory", "active")] == [(row["name"], row["status"]) for row in listed]


def test_doctor_opens_the_store(capsys: pytest.CaptureFixture[str]) -> None:
    """And says what it offers."""
    assert 0 == main(["doctor", "--url", "memory:"])

    assert "storage: memory" in capsys.readouterr().out


def test_a_failing_command_ends_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, with exit code 1 and without a traceback."""
    assert 1 == main(["doctor", "--url", "postgress://db/app"])

    shown = capsys.readouterr()
    assert "" == shown.out
    assert "Did you mean 'postgresql'" in shown.err


def test_wrong_usage_is_exit_code_two() -> None:
    """As everywhere."""
    with pytest.raises(SystemExit) as raised:
        main(["nonsense"])

    assert 2 == raised.value.code
