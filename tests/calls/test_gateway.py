"""The gateway with a journal and an audit on SQLite; the upstreams are the test's own and write down what reaches them.

For every refusal the proof is that nothing reached the upstream, and that the journal says so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from anyio.lowlevel import checkpoint
from sqlalchemy import Connection

from codemode_server.calls.call_audit import CallAudit
from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.gateway import Gateway
from codemode_server.catalog.catalog import Catalog
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.config.settings import Settings
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.errors import (
    AnswerLost,
    CallError,
    CallRefused,
    CallTimedOut,
    InvalidArguments,
    ToolFailed,
    UnknownTool,
    UpstreamUnavailable,
)
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Session
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.sandbox.contract import Reply
from codemode_server.storage.audit import Audit
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal import Journal
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.support.redaction import Payloads, Redactor
from tests.calls.gateways import gateway_of
from tests.calls.test_fitted_arguments import PICTURE
from tests.memory.upstreams import READ_RESOURCE, MemoryUpstreams
from tests.storage.journal_rows import begin_execution

SECRET = "ghp_0123456789abcdef"
TOOLS = (
    ToolDefinition(
        "create-issue",
        input_schema={
            "type": "object",
            "properties": {"title": {"type": "string"}, "body": {"type": "string"}},
            "required": ["title"],
        },
    ),
    ToolDefinition("delete_repo", input_schema={"type": "object", "properties": {}}),
)


class RecordingUpstreams(MemoryUpstreams):
    """Answers as told; a test can wait until a request has come."""

    def __init__(self, answer: Any = None) -> None:
        super().__init__(answer)
        self.entered = anyio.Event()

    async def respond(self, server: str, tool: str, arguments: dict[str, Any]) -> Any:
        self.entered.set()
        if tool == READ_RESOURCE:
            uri = arguments["uri"]
            return Reply([{"type": "file", "mime_type": None, "name": "f", "uri": uri, "text": f"in {uri}"}], "blocks")
        if self.answer is anyio.sleep_forever:
            await anyio.sleep_forever()
        return await super().respond(server, tool, arguments)


@dataclass
class HostApi:
    """A gateway and what stands behind it."""

    gateway: Gateway
    upstreams: RecordingUpstreams
    thread: DatabaseThread
    calls: ExecutionCalls

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return (await self.gateway.call(self.calls, "github", tool, arguments)).value

    async def recorded(self) -> list[tuple[Any, ...]]:
        """The calls in the journal, with their errors as the audit has them."""
        statement = "SELECT seq, tool, decision, status, recorded_error FROM calls ORDER BY seq"
        return await self.thread.run(lambda connection: [tuple(it) for it in connection.exec_driver_sql(statement)])

    async def dump(self) -> str:
        await checkpoint()

        def dump(connection: Connection) -> str:
            return "\n".join(cast("sqlite3.Connection", connection.connection.driver_connection).iterdump())

        return await self.thread.run(dump)


_threads: list[DatabaseThread] = []


@pytest.fixture(autouse=True)
def ended_threads() -> Iterator[None]:
    yield
    while _threads:
        _threads.pop().close()


def host_api(tmp_path: Path, answer: Any = None, payloads: Payloads = "all", **permissions: Any) -> HostApi:
    with closing(Database(tmp_path)) as database:
        begin_execution(database, "x1")
    thread = DatabaseThread(tmp_path)
    _threads.append(thread)
    upstreams = RecordingUpstreams(answer)
    catalog = Catalog.build([UpstreamListing("github", UpstreamState.READY, TOOLS)])
    settings = Settings.model_validate({"permissions": permissions, "state": {"payloads": payloads}})
    config = LiveConfig(settings, Redactor([SECRET]))
    calls = ExecutionCalls(ExecutionId("x1"), Caller.of(Session("s1"), config))
    journal = Journal(thread, JournalCipher(tmp_path), Audit(thread))
    audit = CallAudit(Audit(thread), config)
    gateway = gateway_of(lambda: catalog, upstreams, journal, config, subscribers=[audit])
    return HostApi(gateway, upstreams, thread, calls)


class TestACallThatIsAllowed:
    async def test_is_recorded_as_started_while_it_is_on_its_way(self, tmp_path: Path) -> None:
        """What a killed product leaves behind: a call that was sent and never settled is one of unknown outcome."""
        it = host_api(tmp_path, answer=anyio.sleep_forever)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.call, "create_issue", {"title": "Bug"})
            with anyio.fail_after(60):
                await it.upstreams.entered.wait()
            assert await it.recorded() == [(1, "create-issue", "allow", "started", None)]
            tasks.cancel_scope.cancel()
        assert (await it.recorded())[0][3] == "cancelled"


class TestACallThatTheUpstreamFails:
    @pytest.mark.parametrize(
        ("error", "status"),
        [
            (ToolFailed("boom"), "failed"),
            (CallTimedOut("no answer"), "timed_out"),
            (UpstreamUnavailable("gone"), "unavailable"),
            (AnswerLost("gone in the call"), "unknown"),
        ],
    )
    async def test_raises_the_same_error_and_is_settled_as_such(
        self, tmp_path: Path, error: CallError, status: str
    ) -> None:
        it = host_api(tmp_path, answer=error, payloads="all")
        with pytest.raises(type(error), match=str(error)):
            await it.call("create_issue", {"title": "Bug"})
        assert (await it.recorded())[0][3:] == (status, str(error))


class TestTheRecord:
    async def test_keeps_shapes_only_unless_told_otherwise(self, tmp_path: Path) -> None:
        it = host_api(tmp_path, answer={"name": "Ann Example"}, payloads="shapes")
        await it.call("create_issue", {"title": "Private"})
        assert "Ann Example" not in await it.dump()
        assert "Private" not in await it.dump()
        assert "str of 11" in await it.dump()

    @pytest.mark.parametrize("payloads", ["shapes", "none"])
    async def test_keeps_no_message_where_it_keeps_no_values(self, tmp_path: Path, payloads: Payloads) -> None:
        """A message says what was wrong with a value, and so holds it."""
        it = host_api(tmp_path, answer=ToolFailed("no such customer: Ann Example"), payloads=payloads)
        with pytest.raises(ToolFailed, match="Ann Example"):
            await it.call("create_issue", {"title": "Bug"})
        assert (await it.recorded())[0][3:] == ("failed", "failed")


LINKED = Reply(
    [
        {"type": "text", "text": "two documents"},
        {"type": "file", "mime_type": None, "name": "a", "uri": "doc://a"},
        {"type": "file", "mime_type": None, "name": "b", "uri": f"https://docs/b?key={SECRET}"},
    ],
    "blocks",
)


async def test_bytes_that_are_no_text_are_recorded_as_an_invalid_call_with_its_decision(tmp_path: Path) -> None:
    text, forms = PICTURE
    it = host_api(tmp_path, rules=[{"deny": "github/delete_*"}])
    given = {"title": "Bug", "body": text}
    with pytest.raises(InvalidArguments, match="takes text"):
        await it.gateway.call(it.calls, "github", "create_issue", given, forms=[(("body",), forms)])
    ((seq, tool, decision, status, error),) = await it.recorded()
    assert (seq, tool, decision, status) == (1, "create-issue", "allow", "invalid")
    assert "takes text" in error
    assert it.calls.reports[0].status is CallStatus.INVALID
    assert it.upstreams.reached == []


class TestALinkedResource:
    async def test_of_another_execution_or_server_is_never_asked_for(self, tmp_path: Path) -> None:
        it = host_api(tmp_path, answer=LINKED)
        await it.call("create_issue", {"title": "Bug"})
        with pytest.raises(UnknownTool, match="gitlab"):
            await it.gateway.read(it.calls, "gitlab", "doc://a")
        it.calls = ExecutionCalls(it.calls.execution_id, it.calls.caller, started=10)
        with pytest.raises(InvalidArguments, match="no resources, and no result in this program links to"):
            await it.gateway.read(it.calls, "github", "doc://a")
        assert len(it.upstreams.reached) == 1

    async def test_under_a_uri_with_a_secret_is_read_without_the_program_knowing_it(self, tmp_path: Path) -> None:
        it = host_api(tmp_path, answer=LINKED)
        uri = (await it.call("create_issue", {"title": "Bug"}))[2]["uri"]
        assert uri == "https://docs/b?key=***"
        reply = await it.gateway.read(it.calls, "github", uri)
        assert it.upstreams.reached[-1][2] == {"uri": f"https://docs/b?key={SECRET}"}
        assert SECRET not in str(reply)
        assert SECRET not in await it.dump()


class TestARawCall:
    async def test_gives_the_whole_result_redacted(self, tmp_path: Path) -> None:
        result = {"content": [{"type": "text", "text": f"1 {SECRET}"}], "_meta": {"a": 1}, "isError": False}
        it = host_api(tmp_path, answer=result)
        reply = await it.gateway.call(it.calls, "github", "create_issue", {"title": "Bug"}, raw=True)
        assert reply == Reply(result | {"content": [{"type": "text", "text": "1 ***"}]})
        assert await it.recorded() == [(1, "create-issue", "allow", "succeeded", None)]

    async def test_that_gives_an_error_is_recorded_as_failed_and_not_raised(self, tmp_path: Path) -> None:
        it = host_api(tmp_path, answer={"isError": True, "content": [{"type": "text", "text": f"no {SECRET}"}]})
        reply = await it.gateway.call(it.calls, "github", "create_issue", {"title": "Bug"}, raw=True)
        assert reply.value["isError"] is True
        assert (await it.recorded())[0][3:] == ("failed", "no ***")
        assert (it.calls.reports[0].status, it.calls.reports[0].error) == (CallStatus.FAILED, "no ***")

    async def test_is_judged_and_checked_like_any_other(self, tmp_path: Path) -> None:
        it = host_api(tmp_path, rules=[{"deny": "github/delete_*"}])
        with pytest.raises(CallRefused):
            await it.gateway.call(it.calls, "github", "delete_repo", {}, raw=True)
        with pytest.raises(InvalidArguments):
            await it.gateway.call(it.calls, "github", "create_issue", {}, raw=True)
        assert it.upstreams.reached == []
