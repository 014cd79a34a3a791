"""Recorded scenes: small stories that the TypeScript system played, as data.

The format is described in ``golden/README.md``; how a scene is played again is another
room, see ``player``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

__all__ = ("VERSION", "GoldenDataError", "Scene", "check_golden_data", "load_scene", "scene_ids")

#: The recordings that are replayed; those of older versions stay beside them.
VERSION: Final = "1.71"
_CHECKSUMS: Final = "SHA256SUMS"


class GoldenDataError(Exception):
    """The recordings of this installation aren't those that were released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One recorded story: who takes part, what is done, and everything that was seen."""

    id: str
    title: str
    #: First word of the id.
    area: str
    #: Sections of the specifications that it touches.
    spec: tuple[str, ...]
    #: Agents, tools, processors, policies, as data.
    setup: Mapping[str, Any]
    #: Per agent: what its model says, call by call.
    script: Mapping[str, list[list[dict[str, Any]]]]
    actions: tuple[Mapping[str, Any], ...]
    observed: Mapping[str, Any]


def _folder() -> Traversable:
    return files("mastra_conformance.wire").joinpath("golden", VERSION)


def scene_ids() -> list[str]:
    """The ids of all scenes, sorted."""
    names = (entry.name for entry in _folder().iterdir())
    return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))


def load_scene(scene_id: str) -> Scene:
    """
    Read one scene.

    Raises:
        GoldenDataError: It isn't there.
    """
    path = _folder().joinpath(f"{scene_id}.json")
    if not path.is_file():
        raise GoldenDataError(f"There is no scene {scene_id!r}. Known: {', '.join(scene_ids())}.")
    raw = json.loads(path.read_text("utf-8"))
    return Scene(
        id=raw["id"],
        title=raw["title"],
        area=raw["area"],
        spec=tuple(raw["spec"]),
        setup=raw["setup"],
        script=raw["script"],
        actions=tuple(raw["actions"]),
        observed=raw["observed"],
    )


def check_golden_data() -> None:
    """
    Compare every recording with its checksum.

    Raises:
        GoldenDataError: One was changed, is missing, or has no checksum.
    """
    listed = {}
    for line in _folder().joinpath(_CHECKSUMS).read_text("utf-8").splitlines():
        digest, _, name = line.partition("  ")
        listed[name.removesuffix(".json")] = digest
    if sorted(listed) != scene_ids():
        odd = sorted(set(listed) ^ set(scene_ids()))
        raise GoldenDataError(f"{_CHECKSUMS} and the recordings differ about {', '.join(odd)}.")
    for scene_id, digest in listed.items():
        data = _folder().joinpath(f"{scene_id}.json").read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise GoldenDataError(f"The recording {scene_id!r} was changed.")
