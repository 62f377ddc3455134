"""An upstream that stands in for `mcp-server-git` in the documentation's example: the log of 500 commits, 41 fixes."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from tests.example_servers.plain import Server

server = Server("git")


@server.tool()
def git_log(repo_path: str, max_count: int = 10) -> str:
    """Shows the commit logs."""
    messages = (f"fix the {n}th thing" if n < 41 else f"Add thing {n}" for n in range(max_count))
    return "Commit history:\n" + "\n".join(f"Commit: {n:040x}\nMessage: {text}\n" for n, text in enumerate(messages))


if __name__ == "__main__":
    server.run()
