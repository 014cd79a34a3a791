"""Which levels a run gives.

A level is given only if every test of its tiers was run and none failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mastra_conformance.outcomes import Outcome
from mastra_conformance.report.model import CaseResult
from mastra_core.wire.baseline import WIRE

__all__ = ("CONCURRENT", "CORE", "FAULT_TOLERANT", "FULL", "INTEROP", "WIRE_LEVEL", "levels_of")

CORE = "core"
FULL = "full"
CONCURRENT = "concurrent"
WIRE_LEVEL = f"wire-{WIRE}"
FAULT_TOLERANT = "fault-tolerant"
INTEROP = "interop"

_BY_TIER = {2: CONCURRENT, 3: WIRE_LEVEL, 4: FAULT_TOLERANT, 5: INTEROP}
#: What no adapter is to blame for where a machine can't show it: it speaks about two
#: versions of ours, or needs the right to mount a disk or to deceive a process about the time.
_EXCUSED = ("faults.versions.", "faults.file_faults.FullDisk", "faults.file_faults.BusFile")

_BLOCKING = frozenset({Outcome.FAILED, Outcome.DISHONEST, Outcome.NOT_RUN})


def levels_of(
    cases: Sequence[CaseResult],
    *,
    declared: Iterable[str] = (),
    partial: bool = False,
    volatile: bool = False,
) -> tuple[str, ...]:
    """
    The levels of one run; ``full`` stands for ``core``, too.

    Args:
        cases: Every test of the run.
        declared: What the adapter declares; a domain that no test has shown gives no level.
        partial: Parts were left out by hand, so nothing can be said.
        volatile: Nothing survives the process, so no fault can be shown to be survived.
    """
    if partial:
        return ()
    static = [case for case in cases if case.tier == 0]
    contract = [case for case in cases if case.tier == 1]
    levels: list[str] = []
    if _is_clean(static) and _are_shown(declared, contract):
        if _is_clean(contract):
            levels.append(FULL)
        elif _is_clean(case for case in contract if _is_base(case)):
            levels.append(CORE)
    for tier, level in _BY_TIER.items():
        if volatile and level == FAULT_TOLERANT:
            continue
        if _is_clean(case for case in cases if case.tier == tier and not _is_excused(case)):
            levels.append(level)
    return tuple(levels)


def _are_shown(declared: Iterable[str], contract: Iterable[CaseResult]) -> bool:
    """Whether at least one test of every declared domain passed."""
    passed = {case.capability for case in contract if case.outcome is Outcome.PASSED}
    shown = {name.partition(".")[0] for name in passed if name is not None}
    return {name for name in declared if "." not in name} <= shown


def _is_base(case: CaseResult) -> bool:
    return case.capability is None or "." not in case.capability


def _is_excused(case: CaseResult) -> bool:
    return case.outcome is Outcome.NOT_RUN and case.id.startswith(_EXCUSED)


def _is_clean(cases: Iterable[CaseResult]) -> bool:
    """At least one passed and nothing is against it."""
    outcomes = [case.outcome for case in cases]
    return Outcome.PASSED in outcomes and not _BLOCKING & set(outcomes)
