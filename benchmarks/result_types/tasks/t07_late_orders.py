"""Which customers have waited longest for an order that is still pending? Count the days to 1 October 2026."""

from servers.calc import date
from servers.sqlite import read_query

rows = read_query(
    query="SELECT c.name, c.email, o.day FROM orders o JOIN customers c ON c.id = o.customer_id "
    "WHERE o.status = 'pending' ORDER BY o.day LIMIT 5"
)
late = []
for row in rows:
    waited = date(action="diff", date=row["day"], date2="2026-10-01")
    late.append({"customer": row["name"], "email": row["email"], "days": waited["days"], "months": waited["months"]})
late
