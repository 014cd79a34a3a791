"""Reports: what a run said about an adapter, in the forms that people and programs read."""

from __future__ import annotations

from mastra_conformance.report.levels import levels_of
from mastra_conformance.report.model import SCHEMA, CaseResult, Report

__all__ = ("SCHEMA", "CaseResult", "Report", "levels_of")
