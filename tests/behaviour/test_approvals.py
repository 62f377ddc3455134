"""A person approves single calls: the product is in memory with real upstreams, the hosts are real clients in both eras
of the protocol.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
import pytest_asyncio
from mcp import Client

from codemode_server.app import App
from codemode_server.calls.execution_calls import MAX_OPEN_QUESTIONS
from codemode_server.cli import run as main
from codemode_server.config import load
from codemode_server.domain.approvals import AnswerScope
from codemode_server.features.approvals import commands as approvals
from codemode_server.mcp_server.server import McpServer

from .person import Person, choosing
from .product import Host, Product, configuration, for_all, office

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
BOTH_ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])
ASK = {"rules": [{"ask": "github/create_issue", "reason": "issues are public"}]}
ONCE, PROGRAM, SESSION, TOOL, READS, ALWAYS, NO = (
    "Allow this call",
    "Allow this tool for the rest of this program",
    "Allow it in this session, as shown",
    "Allow this tool in this session, whatever it sends",
    "Always allow what only reads on this server",
    "Always allow this tool",
    "No",
)
CREATE = "from servers.github import create_issue\n"


@asynccontextmanager
async def product(folder: Path, *, watch: bool = False, **sections: Any) -> AsyncIterator[App]:
    sections.setdefault("permissions", ASK)
    async with App.open(load(configuration(folder, office(folder, "github"), **sections)), watch=watch) as app:
        async with Client(app.front) as client:
            await Host(client, folder).settled()
        yield app


@asynccontextmanager
async def connected(app: App, person: Person | None = None, era: str = "auto") -> AsyncIterator[Product]:
    """A host with a session of its own, as over HTTP; the upstream has forgotten earlier calls."""
    callbacks: dict[str, Any] = {} if person is None else {"elicitation_callback": person.elicit}
    front = McpServer()
    front.set_ready(app)
    async with Client(front, mode=era, **callbacks) as client:
        host = Host(client, app.loaded.base_dir)
        host.forget_calls()
        yield Product(app, host)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    """One product for all tests that leave it as it was."""
    async with for_all(product(tmp_path_factory.mktemp("approvals"))) as opened:
        yield opened


def create(title: str, owner: str = "ada", repo: str = "web") -> str:
    return f"create_issue(owner={owner!r}, repo={repo!r}, title={title!r})"


def titles(host: Host) -> list[str]:
    return [it["title"] for it in host.reached("create_issue")]


@BOTH_ERAS
async def test_a_call_is_sent_after_the_hosts_user_has_approved_it(app: App, era: str) -> None:
    person = choosing(ONCE)
    async with connected(app, person, era) as it:
        answer = await it.host.run(CREATE + create("one"))
        assert answer.value["number"] == 1
        *_, asked = await it.audited("approval_requested")
        *_, settled = await it.audited("approval_settled")
    (shown,) = person.seen
    first, owner, repo, title, reason, *_ = shown.message.splitlines()
    assert first == "Approve this call? github.create_issue (it may change data)"
    assert [owner, repo, title] == ['  owner: "ada"', '  repo: "web"', '  title: "one"']
    assert reason == ("Asked because: rule 1 of permissions.rules (ask: github/create_issue): issues are public")
    assert "Lines that may make the call:\n  2: create_issue(owner='ada'" in shown.message
    assert (asked.decision, asked.tool) == ("ask", "create_issue")
    assert settled.decision == "allow"
    assert "elicitation, for this call" in (settled.reason or "")


async def test_a_host_that_can_not_ask_waits_for_another_way_while_other_calls_go_on(tmp_path: Path) -> None:
    """And no limit of time ends the program meanwhile."""
    code = f"""
import asyncio
from servers.github import create_issue, list_issues
created = asyncio.ensure_future({create("one")})
listed = [await list_issues(repo=str(number)) for number in range(3)]
[len(listed), (await created)["number"]]
"""
    limits = {"upstream_seconds": 4, "wall_seconds": 4}
    async with product(tmp_path, limits=limits) as app, connected(app) as it, it.host.running(code) as answers:
        question = await it.question()
        await it.host.until(lambda: len(it.host.reached("list_issues")) == 3)
        await anyio.sleep(4.5)  # longer than either
        await it.answer(question)
        await it.host.until(lambda: bool(answers))
        assert answers[0].value == [3, 1]


@BOTH_ERAS
async def test_an_answer_for_the_program_covers_calls_that_wait_already_and_later_ones(app: App, era: str) -> None:
    """But not those of the next program."""
    person = choosing(PROGRAM)
    calls = ", ".join(create(f"at once {number}") for number in range(5))
    code = f"import asyncio\n{CREATE}await asyncio.gather({calls})\n{create('later')}"
    async with connected(app, person, era) as it:
        assert (await it.host.run(code)).value["number"] == 6
        assert len(person.seen) <= MAX_OPEN_QUESTIONS
        asked = len(person.seen)
        await it.host.run(CREATE + create("of another program"))
        assert len(person.seen) == asked + 1


async def test_a_refused_program_goes_on_once_the_user_has_changed_their_mind(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer says how, and which calls the resumed program did not send again; nothing else is asked."""
    monkeypatch.setattr(approvals, "person_confirms", lambda page, question: True)
    person = choosing(ONCE, NO, NO)
    async with connected(app, person) as it:
        refused = await it.host.run(CREATE + create("first") + "\n" + create("second"))
        assert "the user refused it (asked because: issues are public)" in refused.error["message"]
        way = r"only if the user changes their mind \(codemode-server (approvals approve \w+)\): .*resume=\"(\w+)\""
        (command, name), *_ = re.findall(way, refused.text)
        arguments = [*command.split(), "--config", str(app.loaded.path)]
        assert await anyio.to_thread.run_sync(main, arguments) == 0
        resumed = await it.host.call("execute_code", resume=name, apply="null", code="None")
        assert "[resumed: call 1 (github.create_issue) was answered from the first run, not sent again]" in resumed.text
        assert (titles(it.host), len(person.seen)) == (["first", "second"], 2)


async def test_an_answer_for_the_session_covers_what_fits_the_shown_pattern_and_nothing_else(app: App) -> None:
    person = choosing(SESSION, NO)
    async with connected(app, person, "legacy") as it:
        await it.host.run(CREATE + create("the first"))
        assert '“As shown” covers: owner="ada", repo="web"; any title' in person.seen[0].message
        await it.host.run(CREATE + create("the second"))
        assert len(person.seen) == 1
        for other in (
            create("x", owner="eve"),
            create("x", repo="web2"),
            create("x").replace(")", ", body='not seen before')"),
        ):
            assert "the user refused it" in (await it.host.run(CREATE + other)).error["message"]
        assert titles(it.host) == ["the first", "the second"]


async def test_an_answer_for_the_tool_in_this_session_covers_whatever_it_sends_and_no_other_session(app: App) -> None:
    person = choosing(TOOL, NO)
    async with connected(app, person, "legacy") as it:
        await it.host.run(CREATE + create("one"))
        await it.host.run(CREATE + create("two", owner="eve"))
        assert (len(person.seen), titles(it.host)) == (1, ["one", "two"])
    async with connected(app, person, "legacy") as other:
        assert "the user refused it" in (await other.host.run(CREATE + create("three"))).error["message"]


async def test_a_person_says_for_good_that_what_seems_to_read_only_reads(tmp_path: Path) -> None:
    """The server says nothing of its tools. What changes something is asked about as before."""
    person = choosing(READS, NO)
    listing = "from servers.github import list_issues\nlen(list_issues(repo='web'))"
    async with product(tmp_path, watch=True, permissions={"preset": "careful"}) as app:
        async with connected(app, person) as it:
            assert not (await it.host.run(listing)).result.is_error
            assert "codemode-server effects accept github" in person.seen[0].message
            await it.host.until(lambda: bool(app.config.settings.servers["github"].effects))
            assert app.config.settings.servers["github"].effects == {"list_issues": "read"}
            assert not (await it.host.run(listing.replace("web", "other"))).result.is_error
            assert len(person.seen) == 1
            assert "the user refused it" in (await it.host.run(CREATE + create("one"))).error["message"]
        async with connected(app) as it, it.host.running(CREATE + create("two")) as answers:
            question = await it.question()
            assert AnswerScope.READS not in question.question.scopes
            await it.answer(question)
            await it.host.until(lambda: bool(answers))


async def test_what_was_forbidden_while_the_person_thought_is_not_sent(tmp_path: Path) -> None:
    async with product(tmp_path, watch=True) as app, connected(app) as it:
        async with it.host.running(CREATE + create("one")) as answers:
            question = await it.question()
            denied = {"rules": [{"deny": "github/create_issue"}]}
            configuration(tmp_path, office(tmp_path, "github"), permissions=denied)
            await it.host.until(lambda: app.config.settings.permissions.rules[0].answer == "deny")
            await it.answer(question)
        assert "deny: github/create_issue" in answers[0].error["message"]
        assert titles(it.host) == []


@pytest.mark.parametrize(
    ("hours", "arguments", "says"),
    [
        (1, ["approve"], ""),
        (1, ["deny", "--reason", "not on a Friday"], "the user refused it: not on a Friday"),
        (25, [], "nobody answered in time (approvals.timeout)"),
    ],
    ids=["approved after an hour", "refused after an hour", "not answered for a day"],
)
async def test_the_person_answers_by_the_command_line(
    app: App, monkeypatch: pytest.MonkeyPatch, hours: int, arguments: list[str], says: str
) -> None:
    monkeypatch.setattr(approvals, "person_confirms", lambda page, question: True)
    assert app.approver is not None
    monkeypatch.setattr(app.approver, "clock", app.approver.clock)
    async with connected(app) as it, it.host.running(CREATE + create("one")) as answers:
        question = await it.question()
        app.approver.clock = lambda: time.time() + hours * 3_600
        if arguments:
            action, *more = arguments
            command = ["approvals", action, question.approval_id, *more, "--config", str(it.folder / "upstream.yaml")]
            assert await anyio.to_thread.run_sync(main, command) == 0
        await it.host.until(lambda: bool(answers))
        assert titles(it.host) == ([] if says else ["one"])
        assert says in ("" if not says else answers[0].error["message"])
