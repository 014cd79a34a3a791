"""``skills-processor`` and ``skill-search``: what the model knows of skills, and reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mastra_core.plugins import AdapterContext
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.testing.scripted_model import text, tool_call
from mastra_processors import Skills, SkillSearch, WorkspaceInstructions
from mastra_processors.skill_folders import find_skills

pytestmark = pytest.mark.anyio

DONE = [text("done")]
THREAD = {"thread_id": "t1", "resource_id": "u1"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two skills, a folder that is none, and a file outside."""
    (tmp_path / "secret.txt").write_text("secret")
    root = tmp_path / "skills"
    for name, description, words in (
        ("pdf", "Make & read PDF files.", "Use the pdf tool."),
        ("mail", "Write polite mails.", "Begin with a greeting."),
    ):
        (root / name).mkdir(parents=True)
        front = f"---\nname: {name}\ndescription: >\n  {description}\nlicense: MIT\n---\n"
        (root / name / "SKILL.md").write_text(f"{front}\n{words}\n")
    (root / "pdf" / "forms.md").write_text("How to fill in forms.")
    (root / "pdf" / "out").symlink_to(tmp_path / "secret.txt")
    (root / "other").mkdir()
    (root / "other" / "SKILL.md").write_text("no front matter")
    return root


def system(agent: Any, request: int = -1) -> str:
    prompt = agent.resolve_models(None)[0].requests[request].prompt
    return "\n".join(turn["content"] for turn in prompt if turn["role"] == "system")


def tools(agent: Any) -> list[str]:
    return [one.name for one in agent.resolve_models(None)[0].requests[-1].tools]


async def result_of(agent: Any, **options: Any) -> Any:
    answer = await agent.generate("go", **options)
    [result] = [result for step in answer["steps"] for result in step["toolResults"]]
    return result["payload"]["result"] if "payload" in result else result["result"]


def test_skills_are_folders_with_front_matter(folder: Path) -> None:
    found = find_skills([folder])

    assert [("mail", "Write polite mails."), ("pdf", "Make & read PDF files.")] == [
        (skill.name, skill.description) for skill in found
    ]
    assert {"license": "MIT"} == found[0].more
    assert ["pdf"] == [skill.name for skill in find_skills([folder / "pdf", folder / "absent"])]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("xml", "<description>Make &amp; read PDF files.</description>"),
        ("json", '"description":"Make & read PDF files."'),
        ("markdown", "- **pdf**: Make & read PDF files."),
    ],
)
async def test_skills_are_listed(make_agent: Any, folder: Path, form: str, expected: str) -> None:
    agent = make_agent(DONE, input_processors=[Skills(paths=[folder], format=form)])

    await agent.generate("go")

    assert expected in system(agent)
    assert ["skill", "skill_read"] == tools(agent)


@pytest.mark.parametrize("by", ["name", "location"])
async def test_the_model_reads_a_skill(make_agent: Any, folder: Path, by: str) -> None:
    name = "pdf" if by == "name" else str(folder / "pdf" / "SKILL.md")
    agent = make_agent(
        [tool_call("skill", {"name": name})], DONE, input_processors=[Skills(paths=[folder])]
    )

    assert {"success": True, "instructions": "Use the pdf tool."} == await result_of(agent)


@pytest.mark.parametrize(
    ("skill", "path", "expected"),
    [
        ("pdf", "forms.md", {"success": True, "text": "How to fill in forms."}),
        ("pdf", "../../secret.txt", {"success": False}),
        ("pdf", "out", {"success": False}),
        ("pdf", "absent.md", {"success": False}),
        ("none", "forms.md", {"success": False}),
    ],
)
async def test_only_files_of_the_skill_can_be_read(
    make_agent: Any, folder: Path, skill: str, path: str, expected: Any
) -> None:
    agent = make_agent(
        [tool_call("skill_read", {"name": skill, "path": path})],
        DONE,
        input_processors=[Skills(paths=[folder])],
    )
    result = await result_of(agent)

    assert expected == {name: result[name] for name in expected}
    assert "secret'" not in str(result)


async def test_an_unknown_skill_is_refused_with_the_known_ones(
    make_agent: Any, folder: Path
) -> None:
    agent = make_agent(
        [tool_call("skill", {"name": "x"})], DONE, input_processors=[Skills(paths=[folder])]
    )

    assert "There is no skill 'x'. Known: mail, pdf." == (await result_of(agent))["message"]


async def test_no_skills_cost_nothing(make_agent: Any, tmp_path: Path) -> None:
    for kind in (Skills, SkillSearch):
        agent = make_agent(DONE, input_processors=[kind(paths=[tmp_path])])
        await agent.generate("go")
        assert ("", []) == (system(agent), tools(agent))


# -- on demand ---------------------------------------------------------------------------------


async def test_a_skill_is_found_loaded_and_followed(make_agent: Any, folder: Path) -> None:
    agent = make_agent(
        [tool_call("search_skills", {"query": "a PDF"}, id="1")],
        [tool_call("load_skill", {"skillName": "pdf"}, id="2")],
        DONE,
        DONE,
        input_processors=[SkillSearch(paths=[folder])],
    )
    answer = await agent.generate("go", **THREAD)

    found = str(answer["steps"][0]["toolResults"])
    assert "Make & read" in found
    assert "polite" not in found
    assert "Use the pdf tool." not in system(agent, 1)
    assert "# Skill: pdf\n\nUse the pdf tool." in system(agent, 2)
    await agent.generate("again", **THREAD)
    assert "Use the pdf tool." in system(agent)


async def test_a_skill_is_forgotten_after_its_time(make_agent: Any, folder: Path) -> None:
    clock = FakeClock()
    search = SkillSearch(None, AdapterContext(clock=clock), paths=[folder], ttl=1000)
    load = [tool_call("load_skill", {"skillName": "pdf"})]
    agent = make_agent(load, DONE, DONE, input_processors=[search])

    await agent.generate("go", **THREAD)
    await clock.advance(2)
    await agent.generate("again", **THREAD)

    assert "Use the pdf tool." not in system(agent)


async def test_an_unknown_skill_is_not_loaded(make_agent: Any, folder: Path) -> None:
    load = [tool_call("load_skill", {"skillName": "x"})]
    agent = make_agent(load, DONE, input_processors=[SkillSearch(paths=[folder])])

    assert not (await result_of(agent))["success"]


# -- workspace ---------------------------------------------------------------------------------


async def test_the_places_of_work_are_told(make_agent: Any) -> None:
    async def notes(context: Any) -> str:
        return f"You work for {context['who']}."

    places = [
        {"path": "/data", "mount": "/mnt/data", "readOnly": True, "notes": "Tables."},
        {"path": "/code"},
    ]
    workspace = WorkspaceInstructions(places=places, notes=notes)
    agent = make_agent(DONE, input_processors=[workspace])

    await agent.generate("go", request_context={"who": "Ann"})

    expected = (
        "Files are in /data. Commands see it as /mnt/data. It can't be changed. Tables.\n"
        "Files are in /code.\n"
        "You work for Ann."
    )
    assert expected == system(agent)


async def test_nothing_to_tell_is_no_message(make_agent: Any) -> None:
    agent = make_agent(DONE, input_processors=[WorkspaceInstructions()])

    await agent.generate("go")

    assert "" == system(agent)
