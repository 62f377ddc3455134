"""Tasks of a few short calls, where a program can save little."""

from __future__ import annotations

from benchmarks.tasks.task import Call, Task, Wrong, says

TASKS = (
    Task(
        name="one-setting",
        shape="single lookup",
        prompt="On which port does the service billing listen? Its settings are in /data/files/config/billing.json.",
        servers=("filesystem",),
        expected="direct",
        needed=("filesystem/read_text_file",),
        search="read a text file",
        direct=((Call("filesystem/read_text_file", {"path": "/data/files/config/billing.json"}),),),
        programs=(
            "import json\n"
            "from servers.filesystem import read_text_file\n"
            'text = read_text_file(path="/data/files/config/billing.json")["content"]\n'
            'json.loads(text)["port"]',
        ),
        answer="8100",
        check=says(8100),
        wrong={"another service's": Wrong("8107"), "no number": Wrong("It listens on the usual port.")},
    ),
)
