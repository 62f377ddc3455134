"""Tasks whose data is much larger than the answer."""

from __future__ import annotations

from benchmarks.tasks.task import Call, Task, Wrong, says

TASKS = (
    Task(
        name="log-errors",
        shape="reduce",
        prompt="How many ERROR lines has /data/files/logs/app.log, and which component has the most of them?",
        servers=("filesystem",),
        expected="code",
        needed=("filesystem/read_text_file",),
        search="read a text file",
        direct=((Call("filesystem/read_text_file", {"path": "/data/files/logs/app.log"}),),),
        programs=(
            "from collections import Counter\n"
            "from servers.filesystem import read_text_file\n"
            'lines = read_text_file(path="/data/files/logs/app.log")["content"].splitlines()\n'
            'errors = Counter(line.split()[3] for line in lines if line.split()[2] == "ERROR")\n'
            '{"errors": errors.total(), "most": errors.most_common(1)[0]}',
        ),
        answer="396, most of them (92) of the cache.",
        check=says(396, "cache"),
        wrong={"all lines": Wrong("2000, most of them of the cache"), "a part": Wrong("396, most of the router")},
    ),
)
