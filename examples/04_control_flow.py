"""Example 4, control flow: a loop, a condition, an error that is handled, and a retry, in one program."""

from __future__ import annotations

from hosting import Example, run

PROGRAM = """
from codemode import ToolError
from servers.filesystem import read_text_file, write_file

FOLDER = {folder!r}
created = []

for name in ("north", "south", "west"):
    for attempt in (1, 2):
        try:
            stock = int(read_text_file(path=f"{{FOLDER}}/{{name}}.txt")["content"])
        except ToolError:
            write_file(path=f"{{FOLDER}}/{{name}}.txt", content="0")
            created.append(name)
            continue
        break
    if stock < 5:
        print(f"{{name}}: {{stock}} left, order more (attempt {{attempt}})")
    else:
        print(f"{{name}}: {{stock}} left")

created
"""


async def main(example: Example) -> None:
    (example.files / "north.txt").write_text("12")
    (example.files / "south.txt").write_text("3")
    async with example.session() as session:
        await session.run(PROGRAM.format(folder=str(example.files)))


run(main)
