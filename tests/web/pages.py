"""A state folder as products leave it, and the pages of `codemode-server ui` on it."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2

from codemode_server.calls.audit import AuditEvent, AuditEventKind
from codemode_server.config import load
from codemode_server.domain.approvals import Approval, ApprovalId, Question
from codemode_server.domain.calls import (
    Allow,
    Ask,
    CallKey,
    CallOutcome,
    CallStatus,
    Decision,
    Deny,
    RetryReason,
    ToolCall,
    arguments_digest,
)
from codemode_server.domain.definitions import canonical_text, digest_of
from codemode_server.domain.executions import ExecutionRecord, ExecutionStatus, IsolationLevel
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal, Session
from codemode_server.domain.privacy_tokens import PersonalValue
from codemode_server.domain.savings import Exchange, ServerTokens
from codemode_server.domain.tools import Effect, ToolDefinition
from codemode_server.features.changed_tools.definition_store import DefinitionStore
from codemode_server.features.pages.commands import serving
from codemode_server.features.privacy.token_store import TokenStore
from codemode_server.features.savings.savings_store import record_exchange
from codemode_server.storage.approval_store import ApprovalStore
from codemode_server.storage.audit import Audit
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal import Journal
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.sealed_texts import SealedTexts
from codemode_server.storage.token_cipher import TokenCipher
from tests.behaviour.product import configuration

OWN = Principal(PrincipalId("default"))
OTHER = Principal(PrincipalId("somebody"))
ALLOWED = Allow("rule 1 of permissions.rules (allow: github/list_*)")


@dataclass
class Call:
    """One call of a recorded program. Times are milliseconds after its start."""

    tool: str
    began: float
    took: float
    arguments: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    error: str | None = None
    server: str = "github"
    decision: Decision = ALLOWED
    waited: float | None = None
    """How long it waited for a person before it began."""
    retried: tuple[tuple[float, RetryReason], ...] = ()
    """When after its beginning it was tried again, and why."""


class State:
    """Writes a record as a product does."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._now = 0.0
        self.folder = folder
        self.thread = DatabaseThread(folder)
        self.audit = Audit(self.thread)
        self.journal = Journal(self.thread, JournalCipher(folder), self.audit, clock=lambda: self._now)
        self.approvals = ApprovalStore(self.thread, JournalCipher(folder))
        self.tokens = TokenStore(self.thread, TokenCipher(folder))

    async def execution(
        self,
        name: str,
        code: str,
        *calls: Call,
        at: float = 1_700_000_000.0,
        took: float = 1_000.0,
        status: ExecutionStatus = ExecutionStatus.SUCCEEDED,
        error: str | None = None,
        principal: Principal = OWN,
        description: str | None = None,
    ) -> None:
        execution_id, level = ExecutionId(name), IsolationLevel.MICROVM
        event = AuditEvent(AuditEventKind.EXECUTION_RESUMED, principal, "s1", execution_id, at)
        running = ExecutionStatus.RUNNING
        await self.journal.begin_execution(
            ExecutionRecord(execution_id, principal, Session("s1"), level, running, at, code, description=description),
            recorded_code=code,
        )
        for seq, it in enumerate(calls, start=1):
            await self._call(event, seq, it)
        if status is not running:
            self._now = at + took / 1_000
            await self.journal.end_execution(execution_id, status, error=error, milliseconds=took)

    async def _call(self, event: AuditEvent, seq: int, it: Call) -> None:
        key = CallKey(it.server, it.tool, arguments_digest(it.arguments), 1)
        call = ToolCall(event.execution_id, seq, it.server, it.tool, it.arguments, key)
        began = event.at + it.began / 1_000

        def append(kind: AuditEventKind, at: float, **more: Any) -> None:
            which = (kind, event.principal, event.session_id, event.execution_id, at, seq, it.server, it.tool)
            self.audit.append(AuditEvent(*which, **more))

        if it.waited is not None:
            append(AuditEventKind.APPROVAL_REQUESTED, began - it.waited / 1_000)
            append(AuditEventKind.APPROVAL_SETTLED, began, reason="approved on the page")
        self._now = began
        await self.journal.begin_call(call, it.decision, is_read_only=True)
        for after, why in it.retried:
            append(AuditEventKind.CALL_RETRIED, began + after / 1_000, reason=why.value)
        milliseconds = it.took + (it.waited or 0.0)  # from when the program made it
        if isinstance(it.decision, Deny):
            outcome = CallOutcome(CallStatus.REFUSED, 0.0, error=it.error or "refused")
        elif it.error is not None:
            outcome = CallOutcome(CallStatus.FAILED, milliseconds, error=it.error)
        else:
            outcome = CallOutcome(CallStatus.SUCCEEDED, milliseconds, len(str(it.result)), it.result)
        self._now = began + it.took / 1_000
        await self.journal.end_call(event.execution_id, seq, outcome, recorded_error=outcome.error)

    async def exchange(
        self,
        name: str | None,
        *,
        results: int = 9_000,
        at: float | None = None,
        server: str = "github",
        principal: Principal = OWN,
        all_definitions: int = 20_000,
    ) -> None:
        """What one answer to the host counts."""
        exchange = Exchange(
            principal=principal,
            at=time.time() if at is None else at,
            tool="execute_code" if name else "search_tools",
            execution_id=ExecutionId(name) if name else None,
            sent=120,
            returned=80,
            own_definitions=1_000,
            all_definitions=all_definitions if name else 0,
            turns=1 if name else 0,
            servers={server: ServerTokens(1, 10, results)} if name else {},
        )
        record_exchange(self.thread, exchange)
        await self.thread.run(lambda connection: None)

    async def changed_tool(self, before: ToolDefinition, after: ToolDefinition, server: str = "github") -> None:
        """A server has listed a tool in two ways; only the first one is accepted."""
        await self.listings(server, [before], [after])

    async def listings(self, server: str, *listings: Sequence[ToolDefinition]) -> None:
        """What a server has listed, one after the other; the first is accepted."""
        database = Database(self.folder)
        store = DefinitionStore(database, self.thread, SealedTexts(JournalCipher(self.folder)))
        for tools in listings:
            tools = [replace(it, digest=digest_of(canonical_text(it))) for it in tools]
            await store.take(OWN, server, tools, accept_new=True, at=1_700_000_000.0)
        database.close()

    async def privacy_token(self, value: str, kind: str = "email", principal: Principal = OWN) -> str:
        """The token that stands for a value from now on: `<EMAIL_1>`."""
        (token,) = await self.tokens.tokens_for(principal.principal_id, [PersonalValue(kind, value, value)], "crm")
        return token

    async def question(
        self, question: Question, *, at: float, principal: Principal = OWN, name: str = "a1", of: str = "x0"
    ) -> None:
        """A question of the execution `of` that nobody has answered."""
        key = CallKey(question.server, question.tool, "0" * 64, 1)
        await self.approvals.ask(
            Approval(ApprovalId(name), ExecutionId(of), principal, "s1", key, question, at, at + 600)
        )


def question(**more: Any) -> Question:
    given: dict[str, Any] = {
        "server": "github",
        "tool": "create_issue",
        "title": "github.create_issue",
        "effect": Effect.WRITES,
        "reason": "rule 2 of permissions.rules (ask: github/create_*)",
        "arguments": {"repo": "acme/web", "title": "Checkout fails with an empty basket"},
        "lines": ("7: create_issue(repo=REPO, title=found.title)",),
        "changes": ('- title: "Checkout fails with an empty cart"', '+ title: "Checkout fails with an empty basket"'),
        "done": ("1. github.list_issues",),
        "sources": ("github.list_issues (untrusted)",),
        "pattern": {"repo": "acme/web"},
        "rule": "- allow: github/create_issue",
    }
    return Question(**{**given, **more})


PROGRAM = """\
import asyncio
from servers.github import create_issue, get_issue, list_issues

REPO = "acme/web"
found = await list_issues(repo=REPO, state="open")
details = await asyncio.gather(*[get_issue(repo=REPO, number=it["number"]) for it in found])
oldest = min(details, key=lambda it: it["created_at"])
created = await create_issue(repo=REPO, title=f"Stale: {oldest['title']}")
{"open": len(found), "created": created["number"]}
"""
GATHERED = [Call("get_issue", 150 + 12 * n, 180 + 40 * n, {"number": n}, {"number": n}) for n in (1, 2, 3)]
CREATED = Call(
    tool="create_issue",
    began=1_900,
    took=240,
    arguments={"repo": "acme/web", "title": "Stale: Checkout fails"},
    result={"number": 42},
    decision=Ask("rule 2 of permissions.rules (ask: github/create_*)"),
    waited=1_400,
)
LISTED = Call(
    tool="list_issues",
    began=20,
    took=110,
    arguments={"repo": "acme/web"},
    result=[{"number": 1}],
    retried=((60, RetryReason.EXPIRED_SESSION),),
)
TRIAGE = (LISTED, *GATHERED, CREATED)
RULES = {"rules": [{"allow": "github/list_*"}, {"ask": "github/create_*"}], "default": "allow"}


@dataclass
class Pages:
    """The pages, and a browser that was admitted unless a test wants another one."""

    entrance: str
    browser: httpx2.AsyncClient
    base: str = ""

    @property
    def origin(self) -> str:
        return self.entrance.rpartition("/open/")[0]

    async def enter(self) -> str:
        """Open the entrance; gives the page."""
        entered = await self.browser.get(self.entrance)
        if found := re.search(r'href="(/s/[^"/]+)/executions"', entered.text):
            self.base = self.origin + found[1]
        return entered.text

    async def get(self, path: str, **more: Any) -> httpx2.Response:
        return await self.browser.get(f"{self.base}/{path}", **more)

    async def text(self, path: str) -> str:
        answer = await self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    async def token(self) -> str:
        """The token of the forms."""
        found = re.search(r'name="token" value="([^"]+)"', await self.text("servers/add"))
        assert found is not None
        return found[1]

    async def post(self, path: str, **form: str) -> httpx2.Response:
        headers = {"Origin": self.origin}
        data = {"token": await self.token(), **form}
        return await self.browser.post(f"{self.base}/{path}", data=data, headers=headers)


@asynccontextmanager
async def pages(
    folder: Path, *, payloads: str = "all", is_entered: bool = True, **sections: Any
) -> AsyncIterator[tuple[Pages, State]]:
    """The pages on the state folder there; `is_entered`: with an admitted browser."""
    sections.setdefault("permissions", RULES)
    servers = sections.pop("servers", {"spare": {"command": "/nonexistent/server"}})  # a form has the token
    path = configuration(folder, servers, state={"dir": str(folder / "state"), "payloads": payloads}, **sections)
    state = State(folder / "state")
    try:
        async with pages_of(path, is_entered=is_entered) as made:
            yield made, state
    finally:
        state.thread.close()


@asynccontextmanager
async def pages_of(path: Path | None, *, is_entered: bool = True) -> AsyncIterator[Pages]:
    """The pages on the state folder of a configuration, which a product may use as well; None: of the user's own."""
    async with serving(load(path)) as address, httpx2.AsyncClient(timeout=30) as browser:
        made = Pages(address, browser)
        if is_entered:
            await made.enter()
        yield made
