"""An upstream with the tools that the seed documents' programs call: drive, crm, chat and issues in one process each.

Run as `office.py NAME` over stdio; NAME is google_drive, salesforce, slack, github or slow. What was asked of it is
appended to the file in $OFFICE_LOG, a JSON line a call, so that a test can see what reached the upstream.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))

from tests.example_servers.plain import Call, Server, ToolError

STATUSES = ("pending", "shipped", "paid", "cancelled")


def rows(count: int) -> list[dict[str, Any]]:
    return [
        {
            "Order ID": f"ORD-{number:05}",
            "Status": STATUSES[number % len(STATUSES)],
            "Amount": round(10 + number * 0.37 % 490, 2),
            "Customer": f"customer{number % 700:03}@example.com",
        }
        for number in range(count)
    ]


def noted(tool: str, **arguments: Any) -> int:
    """Write the call down; gives how many there were before."""
    log = Path(os.environ["OFFICE_LOG"])
    before = log.read_text().count(f'"tool": "{tool}"') if log.exists() else 0
    with log.open("a") as file:
        file.write(json.dumps({"tool": tool, **arguments}) + "\n")
    return before


def google_drive(server: Server) -> None:
    @server.tool(description="Get the content of a document.")
    def get_document(documentId: str) -> dict[str, Any]:
        noted("get_document", documentId=documentId)
        return {"title": f"Notes on {documentId}", "content": "We agreed on the price.\n" * 3}

    @server.tool(description="Get all rows of a sheet.")
    def get_sheet(sheetId: str) -> list[dict[str, Any]]:
        noted("get_sheet", sheetId=sheetId)
        return rows(10_000)


def salesforce(server: Server) -> None:
    @server.tool(description="Update a record of the CRM.")
    def update_record(objectType: str, recordId: str, data: dict[str, Any]) -> dict[str, Any]:
        noted("update_record", objectType=objectType, recordId=recordId, data=data)
        return {"id": recordId, "success": True}


def slack(server: Server) -> None:
    @server.tool(description="Get the latest messages of a channel.")
    def get_channel_history(channel: str) -> list[dict[str, str]]:
        before = noted("get_channel_history", channel=channel)
        return [{"text": "starting"}, {"text": "deployment complete" if before else "still deploying"}]


def issues_of(repo: str) -> list[dict[str, Any]]:
    return [
        {
            "number": number,
            "title": f"Issue {number} of {repo}",
            "state": "open" if number % 2 else "closed",
            "labels": ["bug", "ui"][: 1 + number % 2],
            "created_at": f"2026-01-0{number}T00:00:00Z",
        }
        for number in range(1, 6)
    ]


def github(server: Server) -> None:
    @server.tool(description="Create an issue in a repository.")
    def create_issue(owner: str, repo: str, title: str, body: str = "") -> dict[str, Any]:
        number = noted("create_issue", owner=owner, repo=repo, title=title, body=body)
        return {"number": number + 1, "url": f"https://github.example/{owner}/{repo}/issues/{number + 1}"}

    @server.tool(description="List the issues of a repository.")
    def list_issues(repo: str, state: str | None = None) -> list[dict[str, Any]]:
        noted("list_issues", repo=repo, state=state)
        return issues_of(repo)

    @server.tool(description="Fail.")
    def boom() -> str:
        noted("boom")
        raise ToolError("kaboom: the branch does not exist")


def slow(server: Server) -> None:
    @server.tool(description="Wait so many seconds.")
    def wait(call: Call, seconds: float) -> float:
        noted("wait", seconds=seconds)
        if call.cancelled.wait(seconds):
            noted("cancelled")
        return seconds

    @server.tool(description="Work in so many steps of so many seconds, and report each with a message, or none.")
    def work(call: Call, steps: int, seconds: float, message: str | None = None) -> int:
        noted("work", steps=steps)
        for step in range(1, steps + 1):
            if call.cancelled.wait(seconds):
                noted("cancelled")
                return step
            if message is not None:
                call.report(step, steps, message)
        return steps


if __name__ == "__main__":
    office = Server(sys.argv[1])
    {it.__name__: it for it in (google_drive, salesforce, slack, github, slow)}[office.name](office)
    office.run()
