"""List every TODO in the notes, with the file that it stands in."""

from servers.filesystem import read_text_file, search_files

found = search_files(path="{files}/notes", pattern="**/*.txt")["content"]
todos = []
for path in found.splitlines():
    for number, line in enumerate(read_text_file(path=path)["content"].splitlines(), 1):
        if line.startswith("TODO"):
            todos.append(f"{path.rsplit('/', 1)[-1]}:{number} {line[6:]}")
todos
