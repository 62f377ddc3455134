"""What did rent and wages cost in all months of the workbook, and in which month did something change?"""

from servers.excel import read_range

page = read_range(path="{workbook}", sheet="Costs", max_cells=12)
rows = page["values"]
while "next_range" in page:
    page = read_range(path="{workbook}", sheet="Costs", range=page["next_range"], max_cells=12)
    rows += page["values"]
head, *months = rows
total = {name: sum(row[place] for row in months) for place, name in enumerate(head) if name in ("Rent", "Wages")}
{**total, "notes": {row[0]: row[3] for row in months if len(row) > 3 and row[3]}}
