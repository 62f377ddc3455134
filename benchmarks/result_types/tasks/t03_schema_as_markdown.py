"""Document the database: every table with its columns, types and keys, as Markdown."""

from servers.orders import describe_table, list_tables

lines = []
for table in list_tables():
    lines.append(f"## {table['name']}")
    for column in describe_table(table_name=table["name"]):
        marks = [word for word, is_so in (("key", column["pk"]), ("required", column["notnull"])) if is_so]
        lines.append(f"- {column['name']}: {column['type']}" + (f" ({', '.join(marks)})" if marks else ""))
"\n".join(lines)
