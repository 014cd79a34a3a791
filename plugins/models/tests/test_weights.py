"""Where weights are looked for, and what is said when they aren't there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mastra_models.errors import WeightsUnavailableError
from mastra_models.weights import WEIGHTS, find_weights, models_folder, sha256_of

SMALL = replace(WEIGHTS["smollm2"], size=3)


def test_an_own_folder_wins_over_the_cache() -> None:
    assert Path("/models") == models_folder(
        {"MASTRA_MODELS_DIR": "/models", "XDG_CACHE_HOME": "/c"}
    )


def test_the_cache_folder_of_the_user_is_the_default() -> None:
    assert Path("/c/mastra/models") == models_folder({"XDG_CACHE_HOME": "/c"})


@pytest.mark.parametrize("environ", [{}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": "relative"}])
def test_a_relative_cache_counts_as_not_set(environ: dict[str, str]) -> None:
    assert Path.home() / ".cache/mastra/models" == models_folder(environ)


def test_absent_weights_name_the_command_that_gets_them(tmp_path: Path) -> None:
    with pytest.raises(WeightsUnavailableError, match="mastra-py models pull smollm2"):
        find_weights(SMALL, tmp_path)


def test_half_a_file_is_not_used(tmp_path: Path) -> None:
    (tmp_path / SMALL.file_name).write_bytes(b"ab")

    with pytest.raises(WeightsUnavailableError, match="not complete"):
        find_weights(SMALL, tmp_path)


def test_a_whole_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / SMALL.file_name
    path.write_bytes(b"abc")

    assert path == find_weights(SMALL, tmp_path)
    assert "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" == sha256_of(path)
