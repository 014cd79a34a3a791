"""The commands, called as a program calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mastra_conformance.cli import main
from mastra_conformance.report.json_file import write_report
from mastra_conformance.report.model import Report

__all__ = ()


def make_report(*, levels: tuple[str, ...] = ("full",)) -> Report:
    return Report(
        suite={"version": "0.1.0"},
        core={"version": "0.1.0", "plugin_api": "1.0", "wire": "1.71"},
        adapter={"name": "acme", "version": "1", "roles": ["storage"], "url_redacted": "acme:"},
        server={}, environment={}, seed=1, started_at="2026-01-01T00:00:00.000Z",
        declared=frozenset({"memory"}), cases=(), levels=levels,
    )  # fmt: skip


def test_run_prints_the_report_as_json(capfd: pytest.CaptureFixture[str]) -> None:
    """Standard output is one document; the tests' own output goes to standard error."""
    code = main(["run", "memory:", "--tier", "1", "--json", "-k", "closing_twice"])

    out, err = capfd.readouterr()
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == "mastra-conformance/1"
    assert document["adapter"]["url_redacted"] == "memory:"
    assert document["partial"] is True
    assert "1 passed" in err


def test_run_writes_a_report_and_ends_with_the_level(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The last line says what the adapter is worth."""
    path = tmp_path / "r.json"

    code = main(["run", "memory:", "--tier", "1", "--report", str(path), "-k", "closing_twice"])

    assert code == 0
    assert path.exists()
    assert capfd.readouterr().out.splitlines()[-1].startswith("conformance: ")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["run", "postgress://x"], 2, "Unknown storage scheme 'postgress'"),
        (["run", "redis://localhost"], 3, "switched off by MASTRA_PLUGINS_DISABLE"),
        (["run", "memory:", "--tier", "9"], 2, "Tiers '9'"),
        (["run"], 2, "Give a URL, or --own-server"),
        (["run", "--own-server", "oracle"], 2, "Unknown server 'oracle'"),
        (["run", "--own-server", "redis@1.0"], 3, "No Redis server 1.0 was found"),
        (["run", "memory:", "-k", "no_such_test_anywhere"], 2, "No test was selected"),
        (["report", "show", "nowhere.json"], 2, "Can't read 'nowhere.json'"),
        (["cases", "--spec", "poems"], 2, "Unknown specification 'poems'"),
    ],
)
def test_a_failing_command_says_one_sentence(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    text: str,
) -> None:
    """On standard error, with the exit code of the style guide, without a traceback."""
    monkeypatch.setenv("MASTRA_PLUGINS_DISABLE", "redis")

    assert code == main(arguments)

    err = capfd.readouterr().err
    assert text in err
    assert "Traceback" not in err


def test_wrong_usage_is_exit_code_2(capfd: pytest.CaptureFixture[str]) -> None:
    """As argparse says it."""
    with pytest.raises(SystemExit) as caught:
        main([])

    assert caught.value.code == 2


def test_cases_lists_every_specification(capfd: pytest.CaptureFixture[str]) -> None:
    """As JSON for programs, as a table for people."""
    assert main(["cases", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)

    assert main(["cases", "--spec", "signals", "--tests"]) == 0
    table = capfd.readouterr().out

    assert len(document) == 9
    for entry in document.values():
        assert entry["cases"] == len(entry["proven"]) + len(entry["open"])
    assert table.splitlines()[0].split()[:4] == ["specification", "cases", "proven", "open"]


def test_reports_are_shown_compared_and_turned_into_badges(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Every reading command works on a written report, in both forms."""
    good, bad = str(tmp_path / "good.json"), str(tmp_path / "bad.json")
    write_report(make_report(), Path(good))
    write_report(make_report(levels=()), Path(bad))

    assert main(["report", "show", good]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "conformance: full"
    assert main(["report", "show", good, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["levels"] == ["full"]
    assert main(["report", "badge", good]) == 0
    assert json.loads(capfd.readouterr().out)["message"] == "full"
    assert main(["report", "badge", good, "--svg"]) == 0
    assert capfd.readouterr().out.startswith("<svg")
    assert main(["report", "markdown", good]) == 0
    assert capfd.readouterr().out.startswith("# Conformance of acme")
    assert main(["report", "compare", good, bad]) == 1
    assert capfd.readouterr().out == "level lost: full\n"
    assert main(["report", "compare", good, bad, "--json"]) == 1
    assert json.loads(capfd.readouterr().out)["lost_levels"] == ["full"]
    assert main(["matrix", good, bad]) == 0
    assert "| **level** | full | none |" in capfd.readouterr().out
    assert main(["matrix", good, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)[0]["levels"] == ["full"]


def test_servers_are_listed_with_what_would_fix_their_absence(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row per product, and one per version of it."""
    monkeypatch.setenv("MASTRA_TEST_LIBSQL_URL", "libsql+http://127.0.0.1:1")

    assert main(["servers", "list", "--json"]) == 0

    rows = {row["name"]: row for row in json.loads(capfd.readouterr().out)}
    assert {"postgres", "postgres@18", "mongodb", "redis@6.2", "sqld"} <= set(rows)
    assert rows["sqld"] == {
        "name": "sqld",
        "version": None,
        "found": "url",
        "source": "MASTRA_TEST_LIBSQL_URL",
        "fix": None,
    }
    assert all(row["found"] or row["fix"] for row in rows.values())
    assert main(["servers", "list"]) == 0
    assert "MASTRA_TEST_LIBSQL_URL" in capfd.readouterr().out
