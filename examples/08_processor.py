"""Look at, and change, what goes into a run and what comes out of it.

```text
the model reads: I am in [a city].
the user reads: HELLO THERE.
stopped: no numbers, please
```
"""

from __future__ import annotations

import asyncio
from typing import Any

from mastra_core import Agent
from mastra_core.processors import ProcessorArgs
from mastra_core.testing.scripted_model import ScriptedModel, text


class HideCities:
    """Changes the messages before the model, and the store, see them."""

    id = "hide-cities"

    def process_input(self, args: ProcessorArgs) -> None:
        for message in args.message_list.of_source("input"):
            for part in message.parts:
                part["text"] = part["text"].replace("Paris", "[a city]")


class Shout:
    """An output processor: gets each chunk, and gives one, another one, or none."""

    id = "shout"

    def process_output_stream(self, args: ProcessorArgs) -> dict[str, Any] | None:
        chunk = args.part
        if chunk is None or chunk["type"] != "text-delta":
            return chunk
        payload = chunk["payload"]
        if any(letter.isdigit() for letter in payload["text"]):
            args.abort("no numbers, please")
        return {**chunk, "payload": {**payload, "text": payload["text"].upper()}}


async def main() -> None:
    model = ScriptedModel([[text("Hello there.")], [text("It is 5 o'clock.")]])
    agent = Agent(
        id="voice", model=model, input_processors=[HideCities()], output_processors=[Shout()]
    )

    answer = await (await agent.stream("I am in Paris.")).text
    print("the model reads:", model.requests[0].prompt[-1]["content"][0]["text"])
    print("the user reads:", answer)
    output = await agent.stream("What time is it?")
    print("stopped:", (await output.tripwire or {})["reason"])
    await agent.aclose()


asyncio.run(main())
