"""Binds the suite of resume claims."""

from __future__ import annotations

from mastra_conformance.suites.storage.resume_claims import ResumeClaimSuite

__all__ = ("TestResumeClaims",)


class TestResumeClaims(ResumeClaimSuite):
    """The adapters of the command line."""
