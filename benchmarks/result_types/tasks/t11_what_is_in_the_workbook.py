"""Say which sheets the workbook has, how large they are, and where the word Ada stands."""

from servers.excel import describe_workbook, find_cells

sheets = {sheet["name"]: sheet["used_range"] for sheet in describe_workbook(path="{workbook}")["sheets"]}
found = find_cells(path="{workbook}", query="Ada")["matches"]
{"sheets": sheets, "ada": [f"{sheet}!{cell}" for sheet, cells in found.items() for cell in cells]}
