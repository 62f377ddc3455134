"""Put the products with their prices and stock into the workbook's sheet Staff, from column F on."""

from servers.excel import write_range
from servers.sqlite import read_query

products = read_query(query="SELECT name, price, stock FROM products ORDER BY price DESC")
table = [["Product", "Price", "Stock"]] + [[row["name"], row["price"], row["stock"]] for row in products]
written = write_range(path="{workbook}", sheet="Staff", at="F1", rows=table)
f"{written['cells_written']} cells in {written['sheet']}!{written['range']}"
