"""Example 5, state: a task stops half-way, and a later session, of a product that was started anew, goes on with it."""

from __future__ import annotations

from hosting import Example, run

PROGRAM = """
import json
from pathlib import Path
from codemode import checkpoint
from servers.orders import read_query

totals = Path("/workspace/state/totals.json")
point = checkpoint.load()
done = point["step"] if point else 0
found = json.loads(totals.read_text()) if done else {}
print(f"goes on after {done} of 4")

for step, status in list(enumerate(["pending", "shipped", "paid", "cancelled"], start=1))[done:done + 2]:
    rows = read_query(query=f"SELECT SUM(amount) AS total FROM orders WHERE status = '{status}'")
    found[status] = round(rows[0]["total"])
    totals.write_text(json.dumps(found))
    checkpoint.save(step=step, context=f"{status} is summed up")

found
"""


async def main(example: Example) -> None:
    async with example.session() as session:
        await session.run(PROGRAM, description="Sum up the orders, first half")
    async with example.session() as session:
        await session.run(PROGRAM, description="Sum up the orders, second half")


run(main)
