"""Example 7, files: a program makes a folder, reads, writes and moves files of the user by a server's tools, and keeps
a file of its own in /workspace."""

from __future__ import annotations

from hosting import Example, run

PROGRAM = """
import csv
from pathlib import Path
from servers.filesystem import create_directory, list_directory, move_file, read_text_file, write_file

FOLDER = {folder!r}
text = read_text_file(path=f"{{FOLDER}}/sales.csv")["content"]
rows = list(csv.DictReader(text.splitlines()))

create_directory(path=f"{{FOLDER}}/by_city")
for city in sorted({{row["city"] for row in rows}}):
    sold = sum(int(row["sold"]) for row in rows if row["city"] == city)
    write_file(path=f"{{FOLDER}}/by_city/{{city}}.txt", content=f"{{sold}}\\n")
move_file(source=f"{{FOLDER}}/sales.csv", destination=f"{{FOLDER}}/by_city/done.csv")

Path("/workspace/cities.txt").write_text("\\n".join(sorted({{row["city"] for row in rows}})))
print(list_directory(path=f"{{FOLDER}}/by_city")["content"])
f"{{len(rows)}} rows"
"""


async def main(example: Example) -> None:
    (example.files / "sales.csv").write_text("city,sold\nOslo,3\nLyon,4\nOslo,5\n")
    async with example.session() as session:
        await session.run(PROGRAM.format(folder=str(example.files)))
        await session.call("read_tool", path="/workspace/cities.txt")


run(main)
