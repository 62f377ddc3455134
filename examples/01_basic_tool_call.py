"""Example 1, basic tool call and discovery: from the task to the one tool that it needs, which is called once."""

from __future__ import annotations

from hosting import Example, run

TASK = "Evaluate the math expression 5 + 3"

PROGRAM = """
from servers.calc import math

math(expression="5 + 3")
"""


async def main(example: Example) -> None:
    async with example.session() as session:
        await session.call("list_dir", path="/servers")
        await session.call("search_tools", query=TASK, detail_level="scaffold", limit=1)
        await session.call("read_tool", path="servers/calc/math.py")
        await session.run(PROGRAM, description=TASK)


run(main)
