"""Sessions that run at the same time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import side_by_side

__all__ = ()

pytestmark = pytest.mark.anyio

#: Stands in for nox: the sessions `first` and `second` end only if they run at the same time.
SESSIONS = """
import sys, time
from pathlib import Path

name = sys.argv[1]
if name == "wrong":
    sys.exit("no such luck")
if name == "hasty":
    if Path("hasty.mark").exists():
        sys.exit(0)
    Path("hasty.mark").touch()
    sys.exit("out of time")
Path(f"{name}.mark").touch()
end = time.monotonic() + 30
while not all(Path(f"{one}.mark").exists() for one in ("first", "second")):
    assert time.monotonic() < end
    time.sleep(0.01)
print(f"{name} has met the other one")
"""
COMMAND = (sys.executable, "-c", SESSIONS)


async def test_two_sessions_meet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each waits for the other one; the output of each stays together."""
    monkeypatch.chdir(tmp_path)

    done = await side_by_side.run_all(["first", "second"], lanes=2, command=COMMAND)

    assert {("first", 0), ("second", 0)} == {(ran.name, ran.code) for ran in done}
    lines = capfd.readouterr().out.splitlines()
    assert lines[lines.index("first has met the other one") + 1].startswith("✓ first")


async def test_a_session_that_fails_does_not_end_the_others(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The reason is in the output, and the table says which one it was."""
    done = await side_by_side.run_all(["wrong", "wrong"], lanes=1, command=COMMAND)

    assert [1, 1] == [ran.code for ran in done]
    assert 2 == capfd.readouterr().out.count("no such luck\n✗ wrong")
    assert side_by_side.durations(done).splitlines()[0].endswith("failed")


async def test_what_failed_beside_others_is_repeated_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its second run counts, the table tells of the first one, and its output stays."""
    monkeypatch.chdir(tmp_path)

    done = await side_by_side.run_all(["hasty", "wrong"], lanes=2, again=2, command=COMMAND)

    assert {("hasty", 0), ("wrong", 1)} == {(ran.name, ran.code) for ran in done}
    output = capfd.readouterr().out
    assert (1, 2) == (output.count("out of time"), output.count("no such luck"))
    assert "failed beside others" in side_by_side.durations(done)


async def test_a_broken_house_is_not_tried_again(capfd: pytest.CaptureFixture[str]) -> None:
    """More failures than are excused: each has run once."""
    done = await side_by_side.run_all(["wrong", "wrong"], lanes=2, again=1, command=COMMAND)

    assert [1, 1] == [ran.code for ran in done]
    assert 2 == capfd.readouterr().out.count("no such luck")
