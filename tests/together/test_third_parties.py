"""What strangers write: found by entry point, judged by the suite, used by agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

import pytest

SUITE = "import sys; from mastra_conformance.cli import main; sys.exit(main())"
COMMANDS = "import sys; from mastra_cli.app import main; sys.exit(main())"

REMEMBER = """
import asyncio, sys
from mastra_core import Agent, Mastra
from mastra_core.testing.scripted_model import ScriptedModel, text

async def main():
    agent = Agent(id="guide", model=ScriptedModel([[text("Turn left.")]]))
    async with Mastra(storage=sys.argv[1], lease="memory:", agents=[agent]):
        output = await agent.stream("Where?", thread_id="t1", resource_id="ann")
        print(await output.text)

asyncio.run(main())
"""

RECALL = """
import asyncio, sys
from mastra_core import Mastra

async def main():
    async with Mastra(storage=sys.argv[1], lease="memory:") as mastra:
        page = await mastra.storage.memory.list_messages("t1")
        print([message.content["parts"][-1]["text"] for message in page.messages])

asyncio.run(main())
"""

REDACT = """
import asyncio
from mastra_core import Agent, Mastra
from mastra_core.testing.scripted_model import ScriptedModel, text

async def main():
    leak = [text("Use sk-aaaabbbb"), {**text("ccccddddeeee now"), "cont": True}]
    model = ScriptedModel([[text("Noted.")], leak])
    agent = Agent(
        id="desk",
        model=model,
        input_processors=["redaction"],
        output_processors=[("redaction", {"kinds": ["key"]})],
    )
    async with Mastra(agents=[agent]):
        output = await agent.stream("I am ann@example.org")
        await output.text
        print(model.requests[0].prompt[-1]["content"][0]["text"])
        output = await agent.stream("Which key?")
        print((await output.tripwire)["reason"])

asyncio.run(main())
"""


class Place(Protocol):
    """An environment with the third parties' distributions."""

    def run(self, *arguments: str, code: int = 0) -> str: ...


def test_both_are_found_by_their_entry_points(place: Place) -> None:
    """They are active, and nothing had to be told about them."""
    listed = json.loads(place.run("-c", COMMANDS, "plugins", "--json"))

    states = {item["name"]: item["status"] for item in listed}
    assert ("active", "active") == (states["jsonfile"], states["redaction"])


@pytest.mark.timeout(400)
def test_the_adapter_passes_the_base_tier(place: Place, tmp_path: Path) -> None:
    """All of what it declares holds, and all the rest is refused by name."""
    report = tmp_path / "report.json"

    url = f"jsonfile:{tmp_path / 'app.json'}"
    place.run("-c", SUITE, "run", url, "--tier", "0-2", "--report", str(report))

    result = json.loads(report.read_text())
    assert {"full", "concurrent"} <= set(result["levels"])
    facts = result["capabilities"]
    assert all(facts[name]["passed"] for name in ("memory", "workflows", "notifications"))
    refused = {name for name in facts if facts[name]["refused"]}
    assert {name for name in facts if not facts[name]["declared"]} == refused
    assert {"thread_state", "notifications.claims", "workflows.claim_resume"} <= refused


def test_an_agent_keeps_its_thread_in_the_adapters_file(place: Place, tmp_path: Path) -> None:
    """A second process reads what the first one stored."""
    url = f"jsonfile:{tmp_path / 'app.json'}"

    assert "Turn left.\n" == place.run("-c", REMEMBER, url)

    assert "['Where?', 'Turn left.']\n" == place.run("-c", RECALL, url)
    assert json.loads((tmp_path / "app.json").read_text())["threads"].keys() == {"t1"}


def test_an_agent_uses_the_processor_by_its_name(place: Place) -> None:
    """Input is masked before the model sees it; a secret in pieces stops the answer."""
    printed = place.run("-c", REDACT)

    assert "I am [email]\nThe answer contains a secret (key).\n" == printed


def test_a_wrong_option_of_the_processor_names_the_known_ones(place: Place) -> None:
    """The settings model of a third party is checked like our own."""
    wrong = REDACT.replace('{"kinds": ["key"]}', '{"kind": "key"}')

    printed = place.run(
        "-c", f"try:\n    exec({wrong!r})\nexcept Exception as exc:\n    print(exc)"
    )

    assert "kinds" in printed
    assert "mask" in printed
