"""An upstream with the tool definitions of a real server and made-up answers in the form of that server's.

The definitions are those of `@modelcontextprotocol/server-github`, from the file that is its argument; it answers with
JSON as text, as that server does. Standard library only, so that it starts fast.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PEOPLE = ("ada", "grace", "linus", "margaret")
LABELS = ("bug", "docs", "enhancement", "question")
BODY = (
    "Since the update the import stops after the first file. It worked with the version before.\n\n"
    "### Steps\n1. Choose a folder with more than one file\n2. Import it\n3. Only the first file is there\n\n"
    "### Expected\nAll files are imported, or an error says which are not and why.\n"
)


def user(name: str) -> dict[str, Any]:
    return {
        "login": name,
        "id": 1_000 + len(name),
        "avatar_url": f"https://avatars.githubusercontent.com/u/{1_000 + len(name)}?v=4",
        "url": f"https://api.github.com/users/{name}",
        "html_url": f"https://github.com/{name}",
    }


def issue(number: int) -> dict[str, Any]:
    label = LABELS[number % 4]
    address = f"https://api.github.com/repos/acme/shop/issues/{number}"
    return {
        "url": address,
        "id": 9_000_000 + number,
        "number": number,
        "title": f"Import stops after file {number}",
        "user": user(PEOPLE[number % 4]),
        "labels": [{"id": 70 + number % 4, "name": label, "color": "d73a4a", "description": f"Marked as {label}"}],
        "state": "open" if number % 3 else "closed",
        "locked": False,
        "assignee": user(PEOPLE[(number + 1) % 4]),
        "assignees": [user(PEOPLE[(number + 1) % 4])],
        "milestone": None,
        "comments": number % 7,
        "created_at": f"2026-0{number % 9 + 1}-11T09:30:00Z",
        "updated_at": "2026-10-02T16:05:44Z",
        "closed_at": None,
        "body": BODY + f"\nFixed by #{number + 100}.",
        "html_url": f"https://github.com/acme/shop/issues/{number}",
    }


def pull_request(number: int) -> dict[str, Any]:
    return {
        **issue(number),
        "title": f"Import every file ({number})",
        "body": "Reads the folder to its end.",
        "head": {"label": "acme:import", "ref": "import", "sha": f"{number:040x}", "user": user("ada")},
        "base": {"label": "acme:main", "ref": "main", "sha": f"{number + 1:040x}", "user": user("acme")},
        "merged": False,
        "mergeable": True,
        "commits": 3,
        "additions": 120,
        "deletions": 14,
        "changed_files": 4,
    }


def answer(tool: str, arguments: dict[str, Any]) -> Any:
    match tool:
        case "add_issue_comment":
            address = f"https://github.com/acme/shop/issues/{arguments['issue_number']}#issuecomment-1"
            return {"id": 1, "html_url": address, "body": arguments["body"], "user": user("ada")}
        case "get_issue":
            return issue(arguments["issue_number"])
        case "get_pull_request":
            return pull_request(arguments["pull_number"])
        case "get_pull_request_status":
            checks = [{"context": name, "state": "success", "description": "ok"} for name in ("tests", "lint", "types")]
            return {"state": "success", "statuses": checks, "sha": f"{arguments['pull_number']:040x}", "total_count": 3}
    return {}


def main() -> None:
    tools = json.loads(Path(sys.argv[1]).read_text())["tools"]
    about = {"name": "github-mcp-server", "version": "0.6.2"}
    for line in sys.stdin:
        message = json.loads(line)
        result: dict[str, Any] = {}
        match message.get("method"):
            case "initialize":
                result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
            case "tools/list":
                result = {"tools": tools}
            case "tools/call":
                params = message["params"]
                text = json.dumps(answer(params["name"], params.get("arguments") or {}), indent=2)
                result = {"content": [{"type": "text", "text": text}]}
            case "ping":
                pass
            case _ if "id" in message:
                error = {"code": -32601, "message": "no such method"}
                print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
                continue
            case _:
                continue
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
