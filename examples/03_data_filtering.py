"""Example 3, filtering and transformation: the program reads 10,000 rows, and the model gets five lines of them."""

from __future__ import annotations

from hosting import Example, run

PROGRAM = """
from collections import Counter
from servers.orders import read_query

rows = read_query(query="SELECT * FROM orders")
pending = [row for row in rows if row["status"] == "pending"]

owed = Counter()
for row in pending:
    owed[row["customer"]] += row["amount"]

print(f"{len(rows)} orders, {len(pending)} pending, of {len(owed)} customers")
{customer: round(amount, 2) for customer, amount in owed.most_common(3)}
"""


async def main(example: Example) -> None:
    async with example.session() as session:
        await session.run(PROGRAM)


run(main)
