"""The audit of calls through a real product: each decision and each end, with what `state.payloads` allows."""

from __future__ import annotations

from pathlib import Path

from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Principal
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


async def test_an_allowed_and_a_refused_call_are_in_the_audit_without_their_values(tmp_path: Path) -> None:
    rules = {"rules": [{"deny": "github/create_issue"}]}
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"), permissions=rules)) as host:
        answer = await host.run(PROGRAM)
        assert answer.content["status"] == "succeeded", answer.text
    thread = DatabaseThread(tmp_path / "state")
    audit = SqliteAudit(thread)
    rows = await audit.rows(Principal(PrincipalId("default")))
    broken = await audit.first_broken_row()
    thread.close()
    calls = [row.event for row in rows if row.event.seq is not None]
    assert [(it.kind.value, it.seq, it.tool, it.decision, it.status) for it in calls] == [
        ("call_decided", 1, "list_issues", "allow", None),
        ("call_ended", 1, "list_issues", "allow", "succeeded"),
        ("call_decided", 2, "create_issue", "deny", None),
        ("call_ended", 2, "create_issue", "deny", "refused"),
    ]
    assert calls[0].payload is not None
    assert "repo" in calls[0].payload
    assert "secret-name" not in "".join(str(it) for it in calls)
    assert broken is None
