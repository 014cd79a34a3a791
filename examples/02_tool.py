"""Give an agent a tool: a function whose types are its schema.

```text
the model may call: weather(city)
weather('Oslo') was called
Take a coat: -3 degrees in Oslo.
```
"""

from __future__ import annotations

import asyncio

from mastra_core import Agent, tool
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call


@tool
async def weather(city: str) -> dict[str, int]:
    """The weather of a city."""
    print(f"weather({city!r}) was called")
    return {"degrees": -3}


async def main() -> None:
    # Call by call: first the model asks for the tool, then it answers with the result.
    model = ScriptedModel(
        [
            [tool_call("weather", {"city": "Oslo"})],
            [text("Take a coat: -3 degrees in Oslo.")],
        ]
    )
    agent = Agent(id="guide", model=model, tools=[weather])

    schema = weather.input_json_schema()
    print(f"the model may call: {weather.id}({', '.join(schema['properties'])})")
    output = await agent.stream("Do I need a coat in Oslo?")
    print(await output.text)
    await agent.aclose()


asyncio.run(main())
