"""Which customers owe most? Reads ten thousand rows, returns five, and leaves the rest in /workspace for later."""

import csv
from collections import defaultdict
from pathlib import Path

from servers.orders import read_query

rows = read_query(query="SELECT customer, amount FROM orders WHERE status = 'pending'")
owed = defaultdict(float)
for row in rows:
    owed[row["customer"]] += row["amount"]
ranking = sorted(owed.items(), key=lambda item: -item[1])

with Path("/workspace/pending.csv").open("w", newline="") as file:
    csv.writer(file).writerows([("customer", "owed"), *ranking])

{"customers": len(ranking), "top": {customer: round(amount, 2) for customer, amount in ranking[:5]}}
