"""Privacy tokens on the pages: marked wherever a program's texts are shown, and shown to the person by a form alone."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from codemode_server.domain.executions import ExecutionStatus
from tests.behaviour.product import in_memory
from tests.behaviour.test_privacy_tokens import ORIGINAL, SHEET
from tests.web.pages import OTHER, OWN, Call, State, pages, question

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
            assert marked(await site.text("executions/x1")) == ["EMAIL_1"] * 2
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
