"""Tasks of a few short calls, where a program can save little."""

from __future__ import annotations

from benchmarks.tasks.task import Call, Task, Wrong, says
from benchmarks.tasks.world import NOTES, PRICES, SETTINGS

_THREE = ("billing", "search", "mail")
_NOTES = [f"/data/files/notes/{name}" for name in NOTES]

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
            """\
import json
from servers.filesystem import read_text_file
text = read_text_file(path="/data/files/config/billing.json")["content"]
json.loads(text)["port"]
""",
        ),
        answer=f"Port {SETTINGS['billing']['port']}.",
        check=says(8100),
        wrong={"another service's": Wrong("Port 8107."), "no number": Wrong("It listens on the usual port.")},
    ),
    Task(
        name="one-time",
        shape="single lookup",
        prompt="When it is 14:30 in Tokyo, what time is it in Kolkata?",
        servers=("time",),
        expected="direct",
        needed=("time/convert_time",),
        search="convert a time between time zones",
        direct=(
            (
                Call(
                    "time/convert_time",
                    {"source_timezone": "Asia/Tokyo", "time": "14:30", "target_timezone": "Asia/Kolkata"},
                ),
            ),
        ),
        programs=(
            """\
from servers.time import convert_time
result = convert_time(source_timezone="Asia/Tokyo", time="14:30", target_timezone="Asia/Kolkata")
result["target"]["datetime"]
""",
        ),
        answer="It is 11:00 in Kolkata.",
        check=says("11:00"),
        wrong={"the other direction": Wrong("It is 18:00 in Kolkata.")},
    ),
    Task(
        name="three-owners",
        shape="few lookups",
        prompt="Who owns the services billing, search and mail? Settings are in /data/files/config/NAME.json.",
        servers=("filesystem",),
        expected="tie",
        needed=("filesystem/read_text_file",),
        search="read a text file",
        direct=(
            tuple(Call("filesystem/read_text_file", {"path": f"/data/files/config/{name}.json"}) for name in _THREE),
        ),
        programs=(
            """\
import json
from servers.filesystem import read_text_file
owners = {}
for name in ("billing", "search", "mail"):
    owners[name] = json.loads(read_text_file(path=f"/data/files/config/{name}.json")["content"])["owner"]
owners
""",
        ),
        answer="billing: Ines, search: Tomas, mail: Adele.",
        check=says("Ines", "Tomas", "Adele"),
        wrong={"one is missing": Wrong("billing: Ines, search: Tomas, mail: unknown.")},
    ),
    Task(
        name="state-of-repository",
        shape="few lookups",
        prompt="Which branch is checked out in /data/repository, is anything uncommitted, whose is the last commit?",
        servers=("git",),
        expected="direct",
        needed=("git/git_status", "git/git_log"),
        search="status of the working tree; commit history",
        direct=(
            (
                Call("git/git_status", {"repo_path": "/data/repository"}),
                Call("git/git_log", {"repo_path": "/data/repository", "max_count": 1}),
            ),
        ),
        programs=(
            """\
from servers.git import git_log, git_status
status = git_status(repo_path="/data/repository")
status + "\\n" + git_log(repo_path="/data/repository", max_count=1)
""",
        ),
        answer="Branch main, nothing uncommitted (a clean tree); the last commit is by Adele.",
        check=says("main", "clean", "Adele"),
        wrong={"the commit before": Wrong("Branch main, a clean tree; the last commit is by Bo.")},
    ),
    Task(
        name="angry-note",
        shape="read and judge",
        prompt="One of the letters note-1.txt to note-4.txt in /data/files/notes is by a customer who leaves us. Who?",
        servers=("filesystem",),
        expected="tie",
        needed=("filesystem/read_multiple_files",),
        search="read several files at once",
        direct=((Call("filesystem/read_multiple_files", {"paths": _NOTES}),),),
        programs=(
            """\
from servers.filesystem import read_multiple_files
read_multiple_files(paths=[f"/data/files/notes/note-{number}.txt" for number in range(1, 5)])["content"]
""",
        ),
        answer="Lena Fisk.",
        check=says("Lena Fisk"),
        wrong={"another": Wrong("Jon Abara.")},
        is_judged=True,
    ),
    Task(
        name="careless-commit",
        shape="read and judge",
        prompt="The last commit in /data/repository is called harmless. Which function has lost a check by it?",
        servers=("git",),
        expected="direct",
        needed=("git/git_show",),
        search="show the changes of a commit",
        direct=((Call("git/git_show", {"repo_path": "/data/repository", "revision": "HEAD"}),),),
        programs=(
            """\
from servers.git import git_show
git_show(repo_path="/data/repository", revision="HEAD")
""",
        ),
        answer="withdraw no longer checks the balance.",
        check=says("withdraw"),
        wrong={"the function beside": Wrong("deposit no longer checks the amount.")},
        is_judged=True,
    ),
    Task(
        name="find-then-read",
        shape="two steps",
        prompt="Which version of meadow is pinned in the lock file (*.lock.json) that is somewhere below /data/files?",
        servers=("filesystem",),
        expected="tie",
        needed=("filesystem/search_files", "filesystem/read_text_file"),
        search="find files by pattern; read a text file",
        direct=(
            (Call("filesystem/search_files", {"path": "/data/files", "pattern": "**/*.lock.json"}),),
            (Call("filesystem/read_text_file", {"path": "/data/files/deps/lamps/harbor.lock.json"}),),
        ),
        programs=(
            """\
import json
from servers.filesystem import read_text_file, search_files
found = search_files(path="/data/files", pattern="**/*.lock.json")["content"].splitlines()
[json.loads(read_text_file(path=path)["content"]).get("meadow") for path in found]
""",
        ),
        answer="1.0.9.",
        check=says("1.0.9"),
        wrong={"another package's": Wrong("4.7.2.")},
    ),
    Task(
        name="price-of-a-lamp",
        shape="two steps",
        prompt="The site http://site.example links to a page for each lamp. What does the Plover lamp cost?",
        servers=("fetch",),
        expected="direct",
        needed=("fetch/fetch",),
        search="fetch a web page",
        direct=(
            (Call("fetch/fetch", {"url": "http://site.example/"}),),
            (Call("fetch/fetch", {"url": "http://site.example/lamp-3.html"}),),
        ),
        programs=(
            """\
import re
from servers.fetch import fetch
links = fetch(url="http://site.example/", raw=True)
path = re.search(r'href="([^"]+)">Plover', links).group(1)
fetch(url="http://site.example" + path)
""",
        ),
        answer=f"{PRICES['Plover']:.2f} EUR.",
        check=says(PRICES["Plover"], "EUR"),
        wrong={"another lamp's": Wrong(f"{PRICES['Heron']:.2f} EUR.")},
    ),
)
