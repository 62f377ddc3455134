"""Which city buys most, and what does it buy?"""

from servers.duckdb import query

cities = query(query="SELECT city, round(sum(units * price)) AS total FROM '{sales}' GROUP BY ALL ORDER BY total DESC")
best, total = cities[0]
products = query(
    query=f"SELECT product, sum(units) AS n FROM '{sales}' WHERE city = '{best}' GROUP BY ALL ORDER BY n DESC"
)
{"city": best, "total": total, "products": {name: int(count) for name, count in products[:3]}}
