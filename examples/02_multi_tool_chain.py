"""Example 2, a chain of tools: the result of one is the argument of the next, and none of it passes the model."""

from __future__ import annotations

from hosting import Example, run

PROGRAM = """
from servers.calc import math
from servers.filesystem import write_file
from servers.memory import create_entities
from servers.orders import read_query

rows = read_query(query="SELECT amount FROM orders WHERE status = 'pending'")
statistics = math(action="statistics", values=[row["amount"] for row in rows])
write_file(path={report!r}, content=str(statistics))
create_entities(entities=[
    {{"name": "pending orders", "entityType": "report", "observations": [f"{{len(rows)}} of them, see report.txt"]}}
])
f"{{len(rows)}} amounts were summarized, stored and remembered"
"""


async def main(example: Example) -> None:
    async with example.session() as session:
        await session.run(PROGRAM.format(report=str(example.files / "report.txt")))


run(main)
