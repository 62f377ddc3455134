"""The audit of calls through a real product: each decision and each end, with what `state.payloads` allows."""

from __future__ import annotations

from pathlib import Path

from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.gateway.audit import AuditEvent, AuditEventKind
from codemode_server.gateway.call_audit import MAX_UNRESOLVED_CALLS
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.sqlite_audit import SqliteAudit
from tests.behaviour.product import configuration, in_memory, office

PROGRAM = """
from servers import ToolError
from servers.github import create_issue, list_issues
list_issues(repo="secret-name")
try:
    create_issue(owner="a", repo="b", title="t")
except ToolError:
    pass
"""


async def audit_rows(folder: Path) -> list[AuditEvent]:
    thread = DatabaseThread(folder / "state")
    try:
        audit = SqliteAudit(thread)
        assert await audit.first_broken_row() is None
        return [row.event for row in await audit.rows(Principal(PrincipalId("default")))]
    finally:
        thread.close()


async def test_an_allowed_and_a_refused_call_are_in_the_audit_without_their_values(tmp_path: Path) -> None:
    rules = {"rules": [{"deny": "github/create_issue"}]}
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"), permissions=rules)) as host:
        answer = await host.run(PROGRAM)
        assert answer.content["status"] == "succeeded", answer.text
    calls = [event for event in await audit_rows(tmp_path) if event.seq is not None]
    assert [(it.kind.value, it.seq, it.tool, it.decision, it.status) for it in calls] == [
        ("call_decided", 1, "list_issues", "allow", None),
        ("call_ended", 1, "list_issues", "allow", "succeeded"),
        ("call_decided", 2, "create_issue", "deny", None),
        ("call_ended", 2, "create_issue", "deny", "refused"),
    ]
    assert calls[0].payload is not None
    assert "repo" in calls[0].payload
    assert "secret-name" not in "".join(str(it) for it in calls)


async def test_calls_of_unknown_tools_are_in_the_audit_up_to_a_number_for_each_program(tmp_path: Path) -> None:
    """Names that read like values are masked unless `state.payloads` is `all`."""
    guess = """
import codemode
for name in ("create_isue", "Ann Example, 12 Main Street", *(f"guess_{n}" for n in range(40))):
    try:
        codemode.call("github", name)
    except codemode.ToolError:
        pass
"""
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"))) as host:
        assert (await host.run(guess)).content["status"] == "succeeded"
    rows = [row for row in await audit_rows(tmp_path) if row.kind is AuditEventKind.CALL_UNRESOLVED]
    assert [(row.seq, row.server, row.tool, row.status, row.decision) for row in rows[:3]] == [
        (1, "github", "create_isue", "invalid", None),
        (2, "github", "***", "invalid", None),
        (3, "github", "guess_0", "invalid", None),
    ]
    assert len(rows) == MAX_UNRESOLVED_CALLS
