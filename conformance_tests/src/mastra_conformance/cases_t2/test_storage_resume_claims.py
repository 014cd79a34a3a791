"""Binds the suite of many resumers of one run."""

from __future__ import annotations

from mastra_conformance.suites.storage.resume_claims import ResumeCrowdSuite

__all__ = ("TestResumeCrowd",)


class TestResumeCrowd(ResumeCrowdSuite):
    """The adapters of the command line."""
