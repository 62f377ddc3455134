"""Example 6, skills: a program saves one, a later session builds on it, and a third uses both.

A saved skill waits until the user accepts it (`codemode-server skills accept NAME`). The example runs without a user,
and its configuration says so: `skills: {review: auto}`.
"""

from __future__ import annotations

from hosting import Example, run

SAVE = """
skill = '''
from servers.orders import read_query

def amounts(status: str) -> list[float]:
    "The amounts of all orders with a status."
    return [row["amount"] for row in read_query(query=f"SELECT amount FROM orders WHERE status = '{status}'")]
'''
with open("/skills/amounts.py", "w") as file:
    file.write(skill)
"""

BUILD_ON_IT = """
skill = '''
from skills.amounts import amounts

def report(*statuses: str) -> dict[str, int]:
    "Number of orders by status."
    return {status: len(amounts(status)) for status in statuses}
'''
with open("/skills/report.py", "w") as file:
    file.write(skill)
"""

USE = """
from skills.amounts import amounts
from skills.report import report

report("pending", "paid"), max(amounts("paid"))
"""


async def main(example: Example) -> None:
    for program in (SAVE, BUILD_ON_IT):
        async with example.session() as session:
            await session.run(program)
    async with example.session() as session:
        await session.call("list_dir", path="/skills")
        await session.run(USE)


run(main, skills={"review": "auto"})
