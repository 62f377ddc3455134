"""The main job on real input, as a person would see it: `make demo`.

Three real MCP servers from PyPI, in environments of their own (their pins conflict); the product started as a host
starts it, over stdio; the way a model goes: list, search, read, execute. Then what was recorded, and what it cost
in tokens against plain MCP. Nothing is faked.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio

from codemode_server.support.tokens import estimate_tokens
from examples.hosting import Example, ExampleFailed
from scripts.npm import Unavailable
from scripts.real_servers import ROOT, entries

WORK = ROOT / ".cache" / "demo"

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


async def main() -> None:
    shutil.rmtree(WORK / "state", ignore_errors=True)
    demo, repository = Example(WORK), _repository()
    rules = [{"allow": "git/git_log"}, {"allow": "git/git_show"}, {"deny": "git/*"}]
    demo.configure(entries(WORK, ("git", "time", "orders"), repository), permissions={"rules": rules})
    async with demo.session(environment={"LANG": "C.UTF-8"}) as session:
        tools = (await session.client.list_tools()).tools
        shown = json.dumps([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools])
        tokens = estimate_tokens(shown + (session.client.instructions or ""))
        _heading("1. The host connects: what the model has in its context from now on")
        print(f"{', '.join(tool.name for tool in tools)}: {tokens} tokens")
        steps: tuple[tuple[str, str, dict[str, Any]], ...] = (
            ("2. The model looks around", "list_dir", {"path": "/servers"}),
            ("3. … searches", "search_tools", {"query": "commit history and diffs", "limit": 3}),
            ("4. … reads what it needs", "read_tool", {"path": "servers/git/git_log.py, servers/orders/read_query.py"}),
            ("5. … and writes one program", "execute_code", {"code": PROGRAM.format(repository=str(repository))}),
        )
        for heading, tool, arguments in steps:
            _heading(heading)
            await session.call(tool, **arguments)
        _heading("6. Larger programs")
        for path in sorted((ROOT / "examples" / "programs").glob("*.py")):
            _heading(f"examples/programs/{path.name}")
            await session.run(path.read_text().replace('REPOSITORY = "."', f"REPOSITORY = {str(repository)!r}"))
    product = [sys.executable, "-m", "codemode_server", "--config", str(WORK / "upstream.yaml")]
    for heading, words in (("7. What was recorded", ["executions", "list"]), ("8. What was saved", ["stats"])):
        _heading(heading)
        print((await anyio.run_process([*product, *words])).stdout.decode())


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


def _heading(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")


if __name__ == "__main__":
    try:
        anyio.run(main)
    except* Unavailable as reasons:
        sys.exit(f"demo: {reasons.exceptions[0]}")
    except* (ExampleFailed, subprocess.CalledProcessError) as failures:
        sys.exit(f"demo: {failures.exceptions[0]}")
