"""Which customers have waited longest for an order that is still pending? Count the days to 1 October 2026."""

from servers.calc import date
from servers.orders import read_query

late = []
for row in read_query(query="SELECT customer, day FROM orders WHERE status = 'pending' ORDER BY day LIMIT 5"):
    waited = date(action="diff", date=row["day"], date2="2026-10-01")
    late.append({"customer": row["customer"], "days": waited["days"], "months": waited["months"]})
late
