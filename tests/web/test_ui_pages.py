"""The pages of `codemode-server ui`, as a browser without script reads and answers them."""

from __future__ import annotations

import html
import re
import socket
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio.to_thread
import pytest
from starlette.responses import PlainTextResponse

from codemode_server.domain.approvals import ApprovalId
from codemode_server.domain.calls import Deny
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.support import loopback_server
from tests.behaviour.product import in_memory, office
from tests.behaviour.test_privacy_tokens import ORIGINAL, SHEET
from tests.web.pages import OTHER, OWN, PROGRAM, TRIAGE, Call, State, pages, question


class TestExecutions:
    async def test_are_listed_newest_first_with_status_and_tools(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, state):
            await state.execution("x1", PROGRAM, *TRIAGE, at=1_700_000_000, took=2_200)
            await state.execution("x2", "1 / 0", at=1_700_000_100, status=ExecutionStatus.FAILED)
            await state.execution("x3", "wait()", at=time.time(), status=ExecutionStatus.RUNNING)
            shown = await site.text("executions")
        assert re.findall(r"<code>(x\d)</code>", shown) == ["x3", "x2", "x1"]
        assert "github.list_issues, github.get_issue, github.create_issue" in shown
        assert re.findall(r'class="status (\w+)"', shown) == ["running", "failed", "succeeded"]

    async def test_are_found_by_text_server_tool_status_and_time(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, state):
            await state.execution("x1", PROGRAM, *TRIAGE, at=1_700_000_000)
            await state.execution("x2", "x", Call("send", 1, 1, server="mail"), at=1_700_200_000)
            await state.execution("x3", "1/0", at=1_700_400_000, status=ExecutionStatus.FAILED, error="ZeroDivision")

            async def found(query: str) -> list[str]:
                return re.findall(r"<code>(x\d)</code>", await site.text(f"executions?{query}"))

            assert await found("text=create_iss") == ["x1"]
            assert await found("text=zerodiv") == ["x3"]
            assert await found("text=x2") == ["x2"]
            assert await found("server=mail") == ["x2"]
            assert await found("server=github&tool=get_issue") == ["x1"]
            assert await found("server=mail&tool=get_issue") == []
            assert await found("status=failed") == ["x3"]
            assert await found("since=2023-11-16&until=2023-11-18") == ["x2"]
            assert await found("text=%25") == [], "a wildcard is a character"

    @pytest.mark.parametrize("payloads", ["all", "shapes", "none"])
    async def test_are_found_by_what_they_show_whatever_is_recorded_of_it(self, tmp_path: Path, payloads: str) -> None:
        given, got = {"title": 'The "Basket" fails'}, [{"customer": "Grüße GmbH"}]
        calls = Call("create_issue", 1, 1, given, got), Call("get", 3, 1, error="No such Zebra")
        async with pages(tmp_path, payloads=payloads) as (site, state):
            for name, owner in (("x1", OWN), ("x2", OTHER)):
                described = "Counts flamingos"
                await state.execution(name, "answer = 6 * 7", *calls, principal=owner, description=described)
                state.journal.note_answer(ExecutionId(name), "the model read: Quagga")
            await state.execution("x3", "1 + 1")  # recorded after what was queued before

            async def found(text: str) -> list[str]:
                return re.findall(r"<code>(x\d)</code>", await site.text(f"executions?{urlencode({'text': text})}"))

            for text in ("6 * 7", "flamingo", '"BASKET" fails', "grüsse g", "zebra", "quagga"):
                assert await found(text) == ["x1"], text
            assert await found("elephant") == []


class TestOneExecution:
    async def test_shows_its_code_beside_its_calls_with_the_lines_that_make_them(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, state):
            await state.execution("x1", PROGRAM, *TRIAGE, took=2_200)
            shown = await site.text("executions/x1")
        marked = re.findall(r'<li id="L(\d+)" class="called">', shown)
        assert marked == ["5", "6", "8"]
        assert shown.count('<li id="call-') == 5
        assert re.findall(r'class="what depth-(\d)"', shown) == ["0", "0", "1", "2", "0"], (
            "overlapping calls are nested"
        )
        assert "rule 2 of permissions.rules (ask: github/create_*)" in shown
        assert "waited 1,400 ms for you (approved on the page)" in shown

    async def test_draws_each_call_as_long_as_its_time_says_and_from_when_the_program_made_it(
        self, tmp_path: Path
    ) -> None:
        """A call that reads is recorded while it is on its way, so its row may begin later."""
        async with pages(tmp_path) as (site, state):
            await state.execution("x1", PROGRAM, *TRIAGE, took=2_500)
            await state.thread.run(
                lambda it: it.exec_driver_sql("UPDATE calls SET started_at = started_at + 0.1 WHERE seq = 2")
            )
            shown = await site.text("executions/x1")
        drawn = re.findall(r'<rect (class="wait" )?x="([\d.]+)" y="0" width="([\d.]+)"', shown)
        said = re.findall(r'class="took">([\d,]+) ms', shown)
        began = re.findall(r"began after ([\d,]+) ms", shown)
        assert began == ["20", "162", "174", "186", "500"]
        assert said == ["110", "220", "260", "300", "1,640"]
        milliseconds = [(bool(wait), float(x) * 2.5, float(width) * 2.5) for wait, x, width in drawn]
        expected = [(False, 20, 110), (False, 162, 220), (False, 174, 260), (False, 186, 300)]
        expected += [(True, 500, 1_400), (False, 1_900, 240)]
        assert [(a, round(b), round(c)) for a, b, c in milliseconds] == expected

    async def test_shows_arguments_and_errors_in_a_line_and_all_values_on_the_page_of_the_call(
        self, tmp_path: Path
    ) -> None:
        failed = Call("send", 2_000, 5, {"text": "x" * 3_000 + "end"}, error="no such address")
        async with pages(tmp_path) as (site, state):
            await state.execution("x1", PROGRAM, *TRIAGE, failed)
            whole, call = await site.text("executions/x1"), await site.text("executions/x1/calls/5")
            long = await site.text("executions/x1/calls/6")
        assert "repo=&#34;acme/web&#34;, title=&#34;Stale: Checkout fails&#34;" in whole
        assert "no such address" in whole
        assert "xend" not in whole
        assert "xend" in long
        assert '<span class="key">title</span> <span class="text">Stale: Checkout fails</span>' in call
        assert '<span class="key">number</span> <code>42</code>' in call

    async def test_has_a_part_of_a_large_result_and_the_rest_behind_links(self, tmp_path: Path) -> None:
        rows = [{"id": n, "text": f"row {n} " + "x" * 1_000} for n in range(1_000)]
        async with pages(tmp_path) as (site, state):
            await state.execution(
                "x1", PROGRAM, Call("list_rows", 1, 5, {}, {"rows": rows, "json": '[{"deep/key": 7}]'})
            )
            first = await site.text("executions/x1/calls/1")
            assert len(first) < 500_000
            assert "row 0 " in first
            assert "row 900 " not in first
            seen, page = set[int](), first
            while more := re.search(r'href="\?(at=%2Fresult%2Frows&amp;from=\d+)"', page):
                seen |= {int(it) for it in re.findall(r">row (\d+) ", page)}
                page = await site.text(f"executions/x1/calls/1?{html.unescape(more[1])}")
            assert seen | {int(it) for it in re.findall(r">row (\d+) ", page)} == set(range(1_000))
            held = await site.text("executions/x1/calls/1?at=/result/json/0/deep~1key")
            assert "<code>7</code>" in held, "a text that is JSON is shown as what it holds"
            for path in ("/nothing", "/result/rows/1000", "/result/rows/x", "/result/rows/0/id/1"):
                assert (await site.get(f"executions/x1/calls/1?at={path}")).status_code == 404, path

    @pytest.mark.parametrize("payloads", ["shapes", "none"])
    async def test_shows_the_program_values_and_answer_whatever_is_recorded_of_them(
        self, tmp_path: Path, payloads: str
    ) -> None:
        """The pages are the person's own: `state.payloads` is for records and traces, which others may read."""
        program = (
            "from servers.github import list_issues\n{'found': [it['title'] for it in list_issues(repo='acme/web')]}"
        )
        servers = office(tmp_path, "github")
        given: dict[str, Any] = {"servers": servers, "permissions": {"default": "allow"}, "payloads": payloads}
        async with pages(tmp_path, **given) as (site, state):
            async with in_memory(tmp_path / "upstream.yaml") as host:
                answer = await host.run(program)
            name = answer.content["execution_id"]
            whole, call = await site.text(f"executions/{name}"), await site.text(f"executions/{name}/calls/1")
            recorded = await state.audit.rows(OWN)
        assert "list_issues(repo=&#39;acme/web&#39;)" in whole
        (title, *_) = answer.value["found"]
        assert html.escape(title) in whole, "of the answer"
        assert html.escape(title) in call, "of the result"
        assert "acme/web" in call
        assert "acme/web" not in str(recorded), "control"
        assert title not in str(recorded), "control"

    async def test_shows_a_secret_in_no_value_and_nothing_once_the_journal_has_removed_it(self, tmp_path: Path) -> None:
        (tmp_path / ".env").write_text("TOKEN=hunter2hunter2\n")
        servers = {"spare": {"command": "/nonexistent/server", "env": {"TOKEN": "${TOKEN}"}}}
        async with pages(tmp_path, servers=servers, payloads="shapes") as (site, state):
            call = Call("send", 1, 2, {"key": "hunter2hunter2"}, {"said": "hunter2hunter2", "to": "ann"})
            await state.execution("x1", "print('hunter2hunter2')", call, description="about hunter2hunter2")
            state.journal.note_answer(ExecutionId("x1"), "value:\nhunter2hunter2 is ann's")
            await state.thread.flush()
            paths = ("executions/x1", "executions/x1/calls/1")
            whole, of_call = [await site.text(it) for it in paths]
            assert "*** is ann&#39;s" in whole, "control"
            assert "ann" in of_call, "control"
            assert "hunter2" not in whole + of_call
            await state.thread.run(lambda it: it.exec_driver_sql("UPDATE executions SET code = NULL, answer = NULL"))
            await state.thread.run(lambda it: it.exec_driver_sql("UPDATE calls SET arguments = NULL, result = NULL"))
            assert "is ann" not in await site.text(paths[0])
            assert "the journal has deleted its arguments and result" in await site.text(paths[1])

    async def test_is_cancelled_in_the_product_that_runs_it(self, tmp_path: Path) -> None:
        servers = office(tmp_path, "github")
        async with (
            pages(tmp_path, servers=servers, permissions={"default": "allow"}) as (site, _),
            in_memory(tmp_path / "upstream.yaml") as host,
            host.running("import time\nwhile True: time.sleep(0.05)") as answers,
        ):
            names: list[str] = []

            async def is_running() -> bool:
                names[:] = re.findall(r"<code>(x\w+)</code>", await site.text("executions?status=running"))
                return bool(names)

            await host.until(is_running)
            other = await host.run("1 + 1")
            assert "/cancel" in await site.text(f"executions/{names[0]}")
            assert (await site.post(f"executions/{names[0]}/cancel")).status_code == 303

            async def is_cancelled() -> bool:
                return 'class="status cancelled"' in await site.text(f"executions/{names[0]}")

            await host.until(is_cancelled)
            assert other.value == 2, "control"
            assert (await site.post(f"executions/{names[0]}/cancel")).status_code == 409, "it has ended"
        assert [it.content["status"] for it in answers] == ["cancelled"]

    @pytest.mark.page_attack
    async def test_of_another_principal_is_not_cancelled(self, tmp_path: Path) -> None:
        running = ExecutionStatus.RUNNING
        async with pages(tmp_path) as (site, state):
            await state.execution("x1", "1", status=running, principal=OTHER)
            await state.execution("x2", "1", status=running)
            refused, taken = await site.post("executions/x1/cancel"), await site.post("executions/x2/cancel")
            rows = await state.thread.run(
                lambda it: it.exec_driver_sql("SELECT execution_id FROM executions WHERE cancel_asked_at > 0").all()
            )
        assert (refused.status_code, taken.status_code) == (409, 303)
        assert rows == [("x2",)]


class TestApprovals:
    async def test_show_all_of_the_question_and_take_the_answer(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, state):
            await state.question(question(), at=time.time())
            assert "github.create_issue" in await site.text("approvals")
            shown = await site.text("approvals/a1")
            for text in ("acme/web", "ask: github/create_*", "1. github.list_issues", "(untrusted)", "7: create_issue"):
                assert text in shown
            assert (await site.post("approvals/a1", answer="allow", scope="session")).status_code == 303
            assert "No call waits" in await site.text("approvals")
            (answered,) = await state.approvals.answered([question_id()])
        assert answered.answer is not None
        assert (answered.answer.is_approved, answered.answer.scope.value) == (True, "session")
        assert answered.answer.channel == "page"

    async def test_are_answered_on_the_list_and_say_in_the_title_that_they_wait(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, state):
            assert "<title>Approvals" in await site.text("approvals")
            await state.question(question(arguments={"title": "Empty basket", "labels": ["bug"]}), at=time.time())
            await state.question(question(tool="send", is_unanswered=True), at=time.time(), name="a2")
            shown = await site.text("approvals")
            assert "<title>(2) Approvals" in shown
            for text in ("Empty basket", "bug", "ask: github/create_*"):
                assert text in shown
            answers = re.findall(r'action="[^"]*/approvals/(a\d)".*?value="(\w+)">Allow<', shown)
            assert answers == [("a1", "allow")], "the other one is a question about what happened"
            assert (await site.post("approvals/a1", answer="allow", scope="call")).status_code == 303
            assert "<title>(1) Savings" in await site.text("savings")
            (answered,) = await state.approvals.answered([question_id()])
        assert answered.answer is not None
        assert answered.answer.is_approved

    async def test_reach_the_program_that_waits_in_a_product(self, tmp_path: Path) -> None:
        servers = office(tmp_path, "github")
        permissions = {"rules": [{"ask": "github/list_issues"}], "default": "allow"}
        approvals = {"answer_seconds": 1}
        async with (
            pages(tmp_path, servers=servers, permissions=permissions, approvals=approvals) as (site, _),
            in_memory(tmp_path / "upstream.yaml") as host,
        ):
            waiting = await host.run("from servers.github import list_issues\nlen(list_issues(repo='a'))")
            assert waiting.content["status"] == "waiting"
            (name,) = set(re.findall(r"/approvals/(a\w+)", await site.text("approvals")))
            for path in ("executions", f"executions/{waiting.content['execution_id']}"):
                assert f'approvals/{name}">waits for you</a>' in await site.text(path)
            assert host.reached("list_issues") == []
            await site.post(f"approvals/{name}", answer="allow", scope="call")
            resumed = await host.call("execute_code", resume=waiting.content["execution_id"])
            assert resumed.content["status"] == "succeeded"


class TestServersAndPermissions:
    async def test_permissions_count_what_each_rule_decided_and_explain_a_call(self, tmp_path: Path) -> None:
        denied = Call("list_issues", 1, 0, decision=Deny("permissions.default is 'deny'"))
        async with pages(tmp_path) as (site, state):
            await state.execution("x1", PROGRAM, *TRIAGE, denied)
            shown = await site.text("permissions")
            tried = await site.text("permissions?call=github/create_issue&args=%7B%22a%22%3A1%7D")
            wrong = await site.text("permissions?call=github/create_issue&args=nonsense")
        assert re.findall(r'<code>(\d\. [^<]+)</code></td><td class="number">(\d+)', shown) == [
            ("1. allow: github/list_*", "4"),
            ("2. ask: github/create_*", "1"),
        ]
        assert "permissions.default is &#39;deny&#39;" in shown
        assert "ask: rule 2 of permissions.rules" in tried
        assert "is not JSON" in wrong


@pytest.mark.page_attack
async def test_nothing_of_another_principal_is_shown_or_answered(tmp_path: Path) -> None:
    async with pages(tmp_path) as (site, state):
        await state.execution("x1", PROGRAM, *TRIAGE, principal=OTHER)
        await state.question(question(), at=time.time(), principal=OTHER)
        await state.execution("x2", "mine", Call("list_issues", 1, 1))
        assert re.findall(r"<code>(x\d)</code>", await site.text("executions?text=x")) == ["x2"], "control"
        for path in ("executions/x1", "executions/x1/calls/1", "approvals/a1"):
            assert (await site.get(path)).status_code == 404
        assert (await site.post("approvals/a1", answer="allow", scope="call")).status_code == 400
        assert '"number">4<' not in await site.text("permissions")
        assert await state.approvals.answered([question_id()]) == []


def question_id() -> ApprovalId:
    return ApprovalId("a1")


async def test_the_address_is_connected_to_as_soon_as_it_is_given() -> None:
    """A script that reads it from `ui --no-browser` may be quicker than the server."""
    async with loopback_server.serving(PlainTextResponse("page")) as origin:
        host, _, port = origin.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
            answer = await anyio.to_thread.run_sync(connection.recv, 1_000)
    assert answer.startswith(b"HTTP/1.1 200")


async def test_a_loss_is_shown_as_one(tmp_path: Path) -> None:
    async with pages(tmp_path) as (site, state):
        await state.exchange("x1", results=0, all_definitions=50)
        page = await site.text("savings")
    assert '<span class="loss">about 285 tokens more than direct calls</span>' in page
    assert page.count('<span class="loss">-285</span>') == 2, "of the day and of the execution"


VALUE = "ann@example.org"


def marked(page: str) -> list[str]:
    return re.findall(r'<a class="token" href="[^"]*/privacy/(\w+)" title="Privacy token">&lt;\1&gt;</a>', page)


async def shown_tokens(state: State) -> list[str | None]:
    """What the audit says was shown to the person."""
    rows = await state.audit.rows(OWN)
    return [row.event.reason for row in rows if row.event.kind == "privacy_shown"]


class TestMarks:
    async def test_are_links_in_programs_arguments_results_errors_and_questions(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, state):
            token = await state.privacy_token(VALUE)
            calls = (
                Call("send", 1, 2, {"to": token}, {"sent": [f"to {token}"]}),
                Call("send", 3, 4, error=f"no {token}"),
            )
            status, error = ExecutionStatus.FAILED, f"ToolError: no {token}"
            await state.execution("x1", f"send(to='{token}')", *calls, status=status, error=error)
            await state.question(question(arguments={"to": token}), at=time.time())
            assert marked(await site.text("executions/x1")) == ["EMAIL_1"] * 4
            assert marked(await site.text("executions/x1/calls/1")) == ["EMAIL_1"] * 2
            assert marked(await site.text("executions/x1/calls/2")) == ["EMAIL_1"]
            assert marked(await site.text("approvals/a1")) == ["EMAIL_1"]

    @pytest.mark.parametrize("name", ["EMAIL_2", "EMAIL_01"])
    async def test_are_missing_where_a_token_stands_for_nothing(self, tmp_path: Path, name: str) -> None:
        async with pages(tmp_path) as (site, state):
            await state.privacy_token(VALUE)
            await state.privacy_token("other@example.org", principal=OTHER)
            await state.privacy_token("more@example.org", principal=OTHER)
            await state.execution("x1", f"send('<{name}>', '<EMAIL_1>')")
            shown = await site.text("executions/x1")
        assert f"&lt;{name}&gt;" in shown
        assert marked(shown) == ["EMAIL_1"], "control"


class TestReveal:
    async def test_shows_the_value_once_it_is_recorded(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, state):
            token = await state.privacy_token("<i>ann</i>@example.org\u202e")
            before = await site.text("privacy/EMAIL_1")
            assert "example.org" not in before
            assert "<button" in before
            assert await shown_tokens(state) == []
            after = await site.post("privacy/EMAIL_1")
            assert after.status_code == 200
            assert "&lt;i&gt;ann&lt;/i&gt;@example.org\\u202e" in after.text, "what it is made of is text"
            assert await shown_tokens(state) == [token]
            assert "example.org" not in await site.text("privacy/EMAIL_1"), "it is shown once"

    async def test_of_what_a_program_read_shows_what_the_server_sent(self, tmp_path: Path) -> None:
        privacy = {"servers": {"google_drive": "tokens"}}
        async with pages(tmp_path, servers=None, privacy=privacy) as (site, state):
            async with in_memory(tmp_path / "upstream.yaml") as host:
                name = (await host.run(SHEET + "rows[0]")).content["execution_id"]
            shown = await site.text(f"executions/{name}/calls/1")
            assert "EMAIL_1" in marked(shown)
            assert ORIGINAL not in shown
            assert ORIGINAL in (await site.post("privacy/EMAIL_1")).text
            assert await shown_tokens(state) == ["<EMAIL_1>"]
