"""Which adapters a run tests, and one test for each of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mastra_conformance.marks import NOTHING_TO_REFUSE
from mastra_conformance.options import options_of
from mastra_conformance.refusals import Refusal, refusals_for
from mastra_conformance.subject import Subject, find_subject
from mastra_conformance.suite import Suite
from mastra_core.errors import MastraError

__all__ = ("parametrize", "subjects_for", "subjects_of")

_SUBJECTS: pytest.StashKey[tuple[Subject, ...]] = pytest.StashKey()


def subjects_for(urls: Sequence[str], plugins: Sequence[str] = ()) -> list[Subject]:
    """
    The adapters behind some URLs, each once.

    Raises:
        MastraError: A URL can't be read, or nothing offers its scheme.
    """
    return [find_subject(url, plugins=tuple(plugins)) for url in dict.fromkeys(urls)]


def subjects_of(config: pytest.Config) -> tuple[Subject, ...]:
    """
    The adapters of the command line.

    Raises:
        pytest.UsageError: One of them can't be used.
    """
    if _SUBJECTS not in config.stash:
        options = options_of(config)
        config.stash[_SUBJECTS] = tuple(_subjects(options.adapters, options.plugins))
    return config.stash[_SUBJECTS]


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Give each test that needs one an adapter, and each refusal test its refusals."""
    names = metafunc.fixturenames
    if "subject" not in names:
        return
    subjects = _subjects_for_class(metafunc)
    if "refusal" not in names:
        metafunc.parametrize("subject", subjects, ids=[subject.label for subject in subjects])
        return
    role = getattr(metafunc.cls, "role", "storage")
    pairs = [(subject, refusal) for subject in subjects for refusal in _refusals(subject, role)]
    metafunc.parametrize(
        ("subject", "refusal"),
        pairs or [pytest.param(None, None, marks=getattr(pytest.mark, NOTHING_TO_REFUSE))],
        ids=[f"{subject.label}-{refusal}" for subject, refusal in pairs] or ["nothing"],
    )


def _subjects_for_class(metafunc: pytest.Metafunc) -> Sequence[Subject]:
    """Those of the command line, or the one that the class names."""
    owner = metafunc.cls
    own_url = owner.adapter if owner is not None and issubclass(owner, Suite) else None
    if own_url is not None:
        return _subjects([own_url], options_of(metafunc.config).plugins)
    found = subjects_of(metafunc.config)
    if not found:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid} needs an adapter: give --mastra-adapter URL, "
            "or set `adapter` on its class."
        )
    return found


def _refusals(subject: Subject, role: str) -> Sequence[Refusal]:
    return refusals_for(role, subject.capabilities) if role in subject.roles else ()


def _subjects(urls: Sequence[str], plugins: Sequence[str]) -> list[Subject]:
    try:
        return subjects_for(urls, plugins)
    except MastraError as exc:
        raise pytest.UsageError(str(exc)) from exc
