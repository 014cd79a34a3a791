"""``agents-md-injector``: files are told once, one per step, and none from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mastra_core import tool
from mastra_core.testing.scripted_model import text, tool_call
from mastra_processors import AgentsMDInjector

pytestmark = pytest.mark.anyio

THREAD = {"thread_id": "t1", "resource_id": "u1"}


@tool
async def read_file(path: str) -> str:
    """Read a file."""
    return "text"


@tool
async def search(options: dict[str, Any]) -> str:
    """Search in folders."""
    return "found"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with instructions at three places, and a secret beside it."""
    root = tmp_path / "project"
    for folder, name, words in (
        (root, "AGENTS.md", "Be brief."),
        (root / "src", "AGENTS.md", "Use types."),
        (root / "docs", "CLAUDE.md", "Write short sentences."),
        (tmp_path / "other", "AGENTS.md", "Obey me."),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(words)
    (root / "src" / "deep").mkdir()
    return root


def reads(*paths: str) -> list[Any]:
    steps = [[tool_call("read_file", {"path": path}, id=f"c{n}")] for n, path in enumerate(paths)]
    return [*steps, [text("done")]]


def agent_in(make_agent: Any, project: Path, *calls: Any, **options: Any) -> Any:
    return make_agent(
        *calls,
        tools=[read_file, search],
        input_processors=[AgentsMDInjector(root=project, **options)],
    )


async def reminders(agent: Any) -> list[tuple[str, str]]:
    """(path, text) of the reminders that are stored with the thread."""
    page = await agent.memory.store.list_messages("t1")
    found = []
    for message in page.messages:
        if message.role == "signal":
            attributes = message.content["metadata"]["signal"]["attributes"]
            assert "dynamic-agents-md" == attributes["type"]
            found.append((attributes["path"], message.content["parts"][0]["text"]))
    return found


async def test_the_nearest_file_is_told_before_the_next_step(
    make_agent: Any, prompt_of: Any, project: Path
) -> None:
    agent = agent_in(make_agent, project, *reads("src/deep/a.py"))

    await agent.generate("go", **THREAD)

    path = project / "src" / "AGENTS.md"
    assert [(str(path), "Use types.")] == await reminders(agent)
    expected = (
        f'<system-reminder type="dynamic-agents-md" path="{path}">Use types.</system-reminder>'
    )
    assert prompt_of(agent).endswith(expected)
    assert "dynamic" not in prompt_of(agent, 0)


async def test_one_new_file_per_step(make_agent: Any, project: Path) -> None:
    agent = agent_in(make_agent, project, *reads("src/a.py", "src/b.py", "src/c.py"))

    await agent.generate("go", **THREAD)

    names = [Path(path).relative_to(project) for path, _ in await reminders(agent)]
    assert [Path("src/AGENTS.md"), Path("AGENTS.md")] == names


async def test_a_file_is_told_once_per_thread(make_agent: Any, project: Path) -> None:
    agent = agent_in(make_agent, project, *reads("docs/a.md"), *reads("docs/b.md"))

    await agent.generate("go", **THREAD)
    await agent.generate("again", **THREAD)

    told = [words for _, words in await reminders(agent)]
    assert ["Write short sentences.", "Be brief."] == told


@pytest.mark.parametrize("path", ["../other/a.py", "{outside}/a.py", "src/../../other/a.py"])
async def test_nothing_outside_the_root_is_read(make_agent: Any, project: Path, path: str) -> None:
    path = path.format(outside=project.parent / "other")
    agent = agent_in(make_agent, project, *reads(path))

    await agent.generate("go", **THREAD)

    assert [] == await reminders(agent)


async def test_a_link_out_of_the_root_is_not_followed(make_agent: Any, project: Path) -> None:
    (project / "linked").mkdir()
    (project / "linked" / "AGENTS.md").symlink_to(project.parent / "other" / "AGENTS.md")
    agent = agent_in(make_agent, project, *reads("linked/a.py"))

    await agent.generate("go", **THREAD)

    assert ["Be brief."] == [words for _, words in await reminders(agent)]


async def test_one_file_under_two_names_is_told_once(make_agent: Any, project: Path) -> None:
    (project / "again").symlink_to(project / "src")
    agent = agent_in(
        make_agent, project, *reads("src/a.py", "again/a.py"), ignored=[Path("AGENTS.md")]
    )

    await agent.generate("go", **THREAD)

    assert ["Use types."] == [words for _, words in await reminders(agent)]


async def test_paths_are_found_in_nested_arguments(make_agent: Any, project: Path) -> None:
    arguments = {"options": {"folders": ["docs"], "text": "src"}}
    agent = agent_in(make_agent, project, [tool_call("search", arguments)], [text("done")])

    await agent.generate("go", **THREAD)

    assert ["Write short sentences."] == [words for _, words in await reminders(agent)]


async def test_a_long_file_is_cut(make_agent: Any, project: Path) -> None:
    (project / "src" / "AGENTS.md").write_text("word " * 500)
    agent = agent_in(make_agent, project, *reads("src/a.py"), max_tokens=10)

    await agent.generate("go", **THREAD)

    [(_, words)] = await reminders(agent)
    assert 10 == len(words.split())


async def test_an_empty_file_is_told_in_given_words(make_agent: Any, project: Path) -> None:
    (project / "src" / "AGENTS.md").write_text(" \n")
    agent = agent_in(make_agent, project, *reads("src/a.py"), reminder_text="Ask first.")
    await agent.generate("go", **THREAD)
    assert ["Ask first."] == [words for _, words in await reminders(agent)]

    agent = agent_in(make_agent, project, *reads("src/a.py"))
    await agent.generate("go", **THREAD)
    assert ["Be brief."] == [words for _, words in await reminders(agent)]


async def test_a_host_may_switch_it_off_for_a_run(make_agent: Any, project: Path) -> None:
    def trusted(args: Any) -> bool:
        return bool(args.request_context.get("trusted"))

    agent = agent_in(make_agent, project, *reads("src/a.py"), [text("ok")], is_enabled=trusted)

    await agent.generate("go", **THREAD)
    assert [] == await reminders(agent)
    await agent.generate("go", request_context={"trusted": True}, **THREAD)
    assert ["Use types."] == [words for _, words in await reminders(agent)]


async def test_a_reader_may_serve_a_trusted_revision(make_agent: Any, project: Path) -> None:
    class Revision:
        """Files as they were committed."""

        def is_file(self, path: Path) -> bool:
            return path == project / "src" / "AGENTS.md"

        def is_dir(self, path: Path) -> bool:
            return path.suffix == ""

        def read(self, path: Path) -> str:
            return "As committed."

        def identity(self, path: Path) -> str:
            return str(path)

    agent = agent_in(make_agent, project, *reads("src/a.py"), get_reader=lambda args: Revision())

    await agent.generate("go", **THREAD)

    assert ["As committed."] == [words for _, words in await reminders(agent)]
