"""Tasks whose data is larger than the answer, or that go from one piece of data to the next."""

from __future__ import annotations

from collections import Counter

from benchmarks.tasks.task import Call, Task, Wrong, says
from benchmarks.tasks.world import COMMITS, LOG, ORDERS, READINGS, REGION_OF, REPORTS_TO, TEAM_OF, TRAIL, VALUES

_ERRORS = Counter(line.split()[3] for line in LOG if line.split()[2] == "ERROR")
_PAID = sum(amount for _, _, status, amount, _ in ORDERS if status == "paid")
_WARMEST = max(READINGS, key=lambda name: max(READINGS[name])).removesuffix(".csv")
_LARGEST = max(COMMITS[:-1], key=lambda commit: commit[3].count("\n"))
_REVENUE = {
    region: sum(row[3] for row in ORDERS if REGION_OF[row[1]] == region) for region in sorted(set(REGION_OF.values()))
}
_BY_TEAM = Counter(TEAM_OF[author] for author, *_ in COMMITS)


def _superiors(person: str) -> list[str]:
    """From the person up to the first who is head or director: the first three of all."""
    found = [person]
    while found[-1] not in ("person01", "person02", "person03"):
        found.append(REPORTS_TO[found[-1]])
    return found


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
            """\
from collections import Counter
from servers.filesystem import read_text_file
lines = read_text_file(path="/data/files/logs/app.log")["content"].splitlines()
errors = Counter(line.split()[3] for line in lines if line.split()[2] == "ERROR")
{"errors": errors.total(), "most": errors.most_common(1)[0]}
""",
        ),
        answer=f"{_ERRORS.total()}, most of them in {_ERRORS.most_common(1)[0][0]}.",
        check=says(_ERRORS.total(), _ERRORS.most_common(1)[0][0]),
        wrong={
            "all lines": Wrong(f"{len(LOG)}, most of them in {_ERRORS.most_common(1)[0][0]}."),
            "another component": Wrong(f"{_ERRORS.total()}, most of them in {_ERRORS.most_common()[-1][0]}."),
        },
    ),
    Task(
        name="sum-in-the-database",
        shape="reduce",
        prompt="What is the sum of the amounts of all paid orders? (Table orders; columns status, amount.)",
        servers=("orders",),
        expected="direct",
        needed=("orders/read_query",),
        search="run a select query on a database",
        direct=((Call("orders/read_query", {"query": "SELECT SUM(amount) FROM orders WHERE status = 'paid'"}),),),
        programs=(
            """\
from servers.orders import read_query
read_query(query="SELECT ROUND(SUM(amount), 2) AS total FROM orders WHERE status = 'paid'")
""",
        ),
        answer=f"{_PAID:.2f}.",
        check=says(round(_PAID, 2)),
        wrong={"all orders": Wrong(f"{sum(row[3] for row in ORDERS):.2f}.")},
    ),
    Task(
        name="trail",
        shape="chain",
        prompt="/data/files/trail/start.txt has a value and the name of the next file in its folder, which has the "
        "same, until there is none. What is the sum of the values?",
        servers=("filesystem",),
        expected="code",
        needed=("filesystem/read_text_file",),
        search="read a text file",
        direct=tuple((Call("filesystem/read_text_file", {"path": f"/data/files/trail/{name}"}),) for name in TRAIL),
        programs=(
            """\
from servers.filesystem import read_text_file
name, total = "start.txt", 0
while name != "none":
    text = read_text_file(path=f"/data/files/trail/{name}")["content"]
    fields = dict(line.split(": ") for line in text.splitlines())
    total += int(fields["value"])
    name = fields["next"]
total
""",
        ),
        answer=f"{sum(VALUES.values())}.",
        check=says(sum(VALUES.values())),
        wrong={"without the last": Wrong(f"{sum(VALUES.values()) - VALUES[TRAIL[-1]]}.")},
    ),
    Task(
        name="superior",
        shape="chain",
        prompt="In the memory, people have the relation reports_to. Going up from person60, who is the first that is "
        "head or director?",
        servers=("memory",),
        expected="code",
        needed=("memory/open_nodes",),
        search="open entities of the knowledge graph by name",
        direct=tuple((Call("memory/open_nodes", {"names": [person]}),) for person in _superiors("person60")),
        programs=(
            """\
from servers.memory import open_nodes
person = "person60"
while True:
    found = open_nodes(names=[person])
    observations = [each["observations"] for each in found["entities"] if each["name"] == person][0]
    if "role: head" in observations or "role: director" in observations:
        break
    person = [each["to"] for each in found["relations"] if each["from"] == person][0]
person
""",
        ),
        plain_programs=(
            """\
from servers.memory import open_nodes
person = "person60"
while True:
    found = open_nodes(names=[person])
    observations = [each["observations"] for each in found["entities"] if each["name"] == person][0]
    if "role: head" in observations or "role: director" in observations:
        break
    # One product names the key `from_`.
    person = [each["to"] for each in found["relations"] if person in (each.get("from"), each.get("from_"))][0]
person
""",
        ),
        answer=f"{_superiors('person60')[-1]}.",
        check=says(_superiors("person60")[-1]),
        wrong={"one below": Wrong(f"{_superiors('person60')[-2]}.")},
    ),
    Task(
        name="warmest-station",
        shape="fan-out",
        prompt="/data/files/readings has a file station-NN.csv for each of 40 stations. Which station had the highest "
        "temperature?",
        servers=("filesystem",),
        expected="code",
        needed=("filesystem/read_multiple_files",),
        search="read several files at once; list a directory",
        direct=(
            (Call("filesystem/read_multiple_files", {"paths": [f"/data/files/readings/{name}" for name in READINGS]}),),
        ),
        programs=(
            """\
import re
from servers.filesystem import read_multiple_files
paths = [f"/data/files/readings/station-{number:02}.csv" for number in range(1, 41)]
text = read_multiple_files(paths=paths)["content"]
station, warmest = "", ("", -100.0)
for line in text.splitlines():
    if name := re.search(r"station-\\d+", line):
        station = name.group()
    elif reading := re.match(r"\\d\\d:00,(-?[\\d.]+)", line):
        warmest = max(warmest, (station, float(reading.group(1))), key=lambda pair: pair[1])
warmest
""",
        ),
        answer=f"{_WARMEST}.",
        check=says(_WARMEST),
        wrong={"the first": Wrong("station-01.")},
    ),
    Task(
        name="largest-commit",
        shape="fan-out",
        prompt="Which of the 40 commits in /data/repository adds the most lines? Name its subject.",
        servers=("git",),
        expected="code",
        needed=("git/git_show",),
        search="show the changes of a commit",
        direct=(
            tuple(
                Call("git/git_show", {"repo_path": "/data/repository", "revision": f"HEAD~{number}"})
                for number in range(len(COMMITS))
            ),
        ),
        programs=(
            """\
import asyncio
from servers.git import git_show
revisions = [f"HEAD~{number}" for number in range(40)]
diffs = await asyncio.gather(*[git_show(repo_path="/data/repository", revision=each) for each in revisions])
added = {}
for diff in diffs:
    lines = diff.splitlines()
    subject = [line.strip() for line in lines if line.startswith("    ")][0]
    added[subject] = len([line for line in lines if line.startswith("+") and not line.startswith("+++")])
max(added.items(), key=lambda item: item[1])
""",
        ),
        answer=f"{_LARGEST[1]}.",
        check=says(_LARGEST[1]),
        wrong={"the last": Wrong("Simplify accounts.")},
    ),
    Task(
        name="revenue-by-region",
        shape="join over servers",
        prompt="/data/files/contacts.csv has the region of each customer, the table orders of the database their "
        "orders (customer, amount). What is the sum of the amounts in each region?",
        servers=("filesystem", "orders"),
        expected="code",
        needed=("filesystem/read_text_file", "orders/read_query"),
        search="read a text file; run a select query on a database",
        direct=(
            (
                Call("filesystem/read_text_file", {"path": "/data/files/contacts.csv"}),
                Call("orders/read_query", {"query": "SELECT customer, SUM(amount) FROM orders GROUP BY customer"}),
            ),
        ),
        programs=(
            """\
import csv
from collections import defaultdict
from servers.filesystem import read_text_file
from servers.orders import read_query
text = read_text_file(path="/data/files/contacts.csv")["content"]
regions = {row["customer"]: row["region"] for row in csv.DictReader(text.splitlines())}
totals = defaultdict(float)
for row in read_query(query="SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer"):
    totals[regions[row["customer"]]] += row["total"]
{region: round(total, 2) for region, total in totals.items()}
""",
        ),
        plain_programs=(
            """\
import json
from servers.filesystem import read_text_file
from servers.orders import read_query
lines = read_text_file(path="/data/files/contacts.csv")["content"].splitlines()[1:]
regions = dict(line.split(",") for line in lines)
text = read_query(query="SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer")
totals = {}
for row in json.loads(text.replace("'", '"')):
    region = regions[row["customer"]]
    totals[region] = totals.get(region, 0) + row["total"]
{region: round(total, 2) for region, total in totals.items()}
""",
        ),
        answer=", ".join(f"{region}: {total:.2f}" for region, total in _REVENUE.items()) + ".",
        check=says(*_REVENUE, *(round(total, 2) for total in _REVENUE.values())),
        wrong={"one region only": Wrong(f"north: {_REVENUE['north']:.2f}.")},
    ),
    Task(
        name="commits-by-team",
        shape="join over servers",
        prompt="The memory has the team of each author as an entity of the author's name. How many of the 40 commits "
        "in /data/repository has each team made?",
        servers=("git", "memory"),
        expected="code",
        needed=("git/git_log", "memory/search_nodes"),
        search="commit history; search the knowledge graph",
        direct=(
            (
                Call("git/git_log", {"repo_path": "/data/repository", "max_count": 40}),
                Call("memory/search_nodes", {"query": "team"}),
            ),
        ),
        programs=(
            """\
import re
from collections import Counter
from servers.git import git_log
from servers.memory import search_nodes
log = git_log(repo_path="/data/repository", max_count=40)
teams = {}
for entity in search_nodes(query="team")["entities"]:
    for observation in entity["observations"]:
        if observation.startswith("team: "):
            teams[entity["name"]] = observation.removeprefix("team: ")
Counter(teams[author] for author in re.findall(r"^Author: (\\w+)", log, re.M))
""",
        ),
        answer=", ".join(f"{team}: {count}" for team, count in sorted(_BY_TEAM.items())) + ".",
        check=says(*_BY_TEAM, *_BY_TEAM.values()),
        wrong={"no numbers": Wrong("harbor made most, then meadow, then summit.")},
    ),
)
