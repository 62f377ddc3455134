"""The main job on real input, as a person would see it: `make demo`.

Three real MCP servers from PyPI, in environments of their own (their pins conflict); the product started as a host
starts it, over stdio; the way a model goes: list, search, read, execute. Then what was recorded, and what it cost
in tokens against plain MCP. Nothing is faked.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

from codemode_server.support.tokens import estimate_tokens
from scripts import real_servers
from scripts.npm import Unavailable

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".cache" / "demo"

UPSTREAMS = ("git", "time", "sqlite")

PROGRAM = """\
import asyncio, re
from collections import Counter
from servers.git import git_log, git_show
from servers.orders import read_query
from servers.time import get_current_time

log = git_log(repo_path={repository!r}, max_count=200)
commits = re.findall(r"^Commit: (\\w+)", log, re.M)
diffs = await asyncio.gather(*[git_show(repo_path={repository!r}, revision=c) for c in commits])
added = Counter()
for diff in diffs:
    name = None
    for line in diff.splitlines():
        if line.startswith("+++ b/"): name = line[6:]
        elif line.startswith("+") and name: added[name] += 1

rows = read_query(query="SELECT * FROM orders")
late = [r for r in rows if r["status"] == "pending" and r["amount"] > 950]
late.sort(key=lambda r: -r["amount"])

print("as of", get_current_time(timezone="Europe/Berlin")["datetime"])
print(len(commits), "commits,", sum(map(len, diffs)), "characters of diffs, most of them in", added.most_common(1)[0])
print(len(rows), "orders,", len(late), "pending above 950, together", round(sum(r["amount"] for r in late), 2))
late[:2]
"""


class DemoFailed(Exception):
    """Raised when a step did not come out right."""


def main() -> None:
    WORK.mkdir(parents=True, exist_ok=True)
    try:
        installed = real_servers.commands(UPSTREAMS)
        repository, database = _repository(), _orders()
        servers = {
            "git": [*installed["git"], "--repository", str(repository)],
            "time": [*installed["time"], "--local-timezone", "UTC"],
            "orders": [*installed["sqlite"], "--db-path", str(database)],
        }
        anyio.run(_demo, servers, repository)
    except* subprocess.CalledProcessError as failures:
        failed = failures.exceptions[0]
        sys.exit(f"demo: {failed}\n{getattr(failed, 'stderr', '') or ''}")
    except* (DemoFailed, Unavailable) as failures:
        sys.exit(f"demo: {_first(failures)}")


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


async def _demo(servers: dict[str, list[str]], repository: Path) -> None:
    shutil.rmtree(WORK / "state", ignore_errors=True)
    config = WORK / "upstream.yaml"
    settings = {
        "servers": {name: {"command": command[0], "args": command[1:]} for name, command in servers.items()},
        "permissions": {"rules": [{"allow": "git/git_log"}, {"allow": "git/git_show"}, {"deny": "git/*"}]},
        "state": {"dir": str(WORK / "state")},
    }
    config.write_text(json.dumps(settings, indent=2))
    command = ["-m", "codemode_server", "--config", str(config)]
    seen = 0
    async with Client(StdioServerParameters(command=sys.executable, args=command, env={"LANG": "C.UTF-8"})) as client:

        async def call(tool: str, **arguments: Any) -> str:
            nonlocal seen
            result = await client.call_tool(tool, arguments, read_timeout_seconds=180)
            text = "\n".join(getattr(block, "text", "") for block in result.content)
            if result.is_error:
                raise DemoFailed(f"{tool} failed:\n{text}")
            seen += estimate_tokens(json.dumps(arguments)) + estimate_tokens(text)
            return text

        tools = (await client.list_tools()).tools
        shown = json.dumps([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools])
        seen += estimate_tokens(shown + (client.instructions or ""))
        _heading("1. The host connects: what the model has in its context from now on")
        print(f"   {', '.join(tool.name for tool in tools)}: {seen} tokens")
        steps: tuple[tuple[str, str, dict[str, Any]], ...] = (
            ("2. The model looks around", "list_dir", {"path": "/servers"}),
            ("3. … searches", "search_tools", {"query": "commit history and diffs", "limit": 3}),
            ("4. … reads what it needs", "read_tool", {"path": "servers/git/git_log.py, servers/orders/read_query.py"}),
            ("5. … and writes one program", "execute_code", {"code": PROGRAM.format(repository=str(repository))}),
        )
        for heading, tool, arguments in steps:
            _heading(heading)
            print(_indented(f"{tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"))
            print(_indented(await call(tool, **arguments), "   │ "))
        _heading("6. The programs of examples/programs/")
        for path in sorted((ROOT / "examples" / "programs").glob("*.py")):
            code = path.read_text().replace('REPOSITORY = "."', f"REPOSITORY = {str(repository)!r}")
            print(_indented(f"{path.name}\n{await call('execute_code', code=code)}", "   │ "))
    for heading, words in (("7. What was recorded", ["executions", "list"]), ("8. What was saved", ["stats"])):
        _heading(heading)
        said = await anyio.run_process([sys.executable, *command, *words])
        print(_indented(said.stdout.decode()))


def _repository() -> Path:
    """The project's own history; where there is none (an unpacked archive), one is made from the tree."""
    inside = subprocess.run(
        ["git", "-C", ROOT, "log", "-1"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    if inside.returncode == 0:
        return ROOT
    made = WORK / "repository"
    if not (made / ".git").exists():
        shutil.copytree(ROOT / "codemode_server", made / "codemode_server", dirs_exist_ok=True)
        author = ["-c", "user.name=demo", "-c", "user.email=demo@example.invalid"]
        for arguments in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "The project, without its history"]):
            subprocess.run(["git", "-C", made, *arguments], check=True, stderr=subprocess.PIPE, text=True)
    return made


def _orders() -> Path:
    """A database with 10,000 orders, the same each time."""
    path = WORK / "orders.db"
    path.unlink(missing_ok=True)
    numbers = random.Random(7)
    rows = [
        (i, f"customer{numbers.randrange(900):03}@example.com", numbers.choice(["pending", "paid", "shipped"]),
         round(numbers.uniform(5, 1000), 2), f"2026-{numbers.randrange(1, 13):02}-{numbers.randrange(1, 29):02}")
        for i in range(1, 10_001)
    ]  # fmt: skip
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("CREATE TABLE orders (id INTEGER, customer TEXT, status TEXT, amount REAL, day TEXT)")
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", rows)
    connection.close()
    return path


def _heading(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")


def _indented(text: str, prefix: str = "   ") -> str:
    return "\n".join(prefix + line for line in text.splitlines())


if __name__ == "__main__":
    main()
