"""The pages of reports show what the commands print: both have their rows from one function."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from html import unescape
from pathlib import Path

import anyio.to_thread
import pytest

from codemode_server.cli import run
from codemode_server.domain.calls import Deny
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.tools import ToolDefinition
from codemode_server.features.pages.log_report import LOG
from codemode_server.features.skills.store import SavedSkill, SkillStore
from codemode_server.support.private_files import private_subfolder, replace_private
from tests.web.evening import SKILL, fill_files
from tests.web.pages import OTHER, OWN, PROGRAM, TRIAGE, Call, Pages, pages
from tests.web.test_ui_tools import listed

SAVED = SavedSkill("revenue", SKILL, ExecutionId("x1"), "s1", 1_790_000_000.0, ("postgres.query",))


def cells(page: str) -> list[list[str]]:
    """The texts of the cells of a page's table, by rows."""
    rows = re.findall(r"<tr>\n(.*?)</tr>", page, re.DOTALL)
    return [[text(it) for it in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)] for row in rows]


def text(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html.replace("<br>", "\n")))


async def table(site: Pages, path: str) -> list[list[str]]:
    return cells(await site.text(path))


async def printed(capsys: pytest.CaptureFixture[str], folder: Path, *command: str) -> str:
    assert await anyio.to_thread.run_sync(run, [*command, "--config", str(folder / "upstream.yaml")]) == 0
    return capsys.readouterr().out


class TestTools:
    async def test_shows_effect_number_and_time_of_the_calls_that_were_sent(self, tmp_path: Path) -> None:
        refused = Call("create_issue", 30, 1, decision=Deny("rule 3"))
        async with pages(tmp_path, servers={"github": {"command": "x"}}) as (site, state):
            await listed(tmp_path, *(ToolDefinition(name, f"Says {name}.") for name in ("create_issue", "list_issues")))
            await state.execution("x1", PROGRAM, *TRIAGE[:1], refused, at=1_700_000_000.0)
            await state.execution("x2", PROGRAM, *TRIAGE[:1], at=1_600_000_000.0)
            await state.execution("x3", PROGRAM, *TRIAGE[:1], at=1_750_000_000.0, principal=OTHER)
            used, unused = await table(site, "tools")
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(1_700_000_000))
        assert (used[:3], used[3][:16]) == (["github.list_issues\nSays list_issues.", "unknown", "2 calls"], day)
        assert unused == ["github.create_issue\nSays create_issue.", "unknown", "0 calls", ""]

    async def test_each_links_to_what_programs_import_and_to_its_calls(self, tmp_path: Path) -> None:
        async with pages(tmp_path, servers={"github": {"command": "x"}}) as (site, state):
            await listed(tmp_path, ToolDefinition("list_issues", "Lists."))
            await state.execution("x1", PROGRAM, *TRIAGE[:1])
            await state.execution("x2", "1 + 1")
            (link,) = re.findall(r'href="[^"]*/(tools/[^"]*/[^"]*)"', await site.text("tools"))
            page = await site.text(link)
            assert "def list_issues" in text(page)
            (calls,) = re.findall(r'href="[^"]*/(executions\?[^"]*)"', page)
            assert re.findall(r"<code>(x\d)</code>", await site.text(unescape(calls))) == ["x1"]


class TestSkills:
    async def test_has_what_the_command_lists(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        async with pages(tmp_path) as (site, state):
            store = SkillStore(state.folder, OWN)
            store.propose(SAVED)
            store.propose(replace(SAVED, name="other", session_id="s2"))
            store.put_in_use(replace(SAVED, name="third").accepted(1_790_000_100.0), shown=None)
            shown = await table(site, "skills")
            lines = await printed(capsys, tmp_path, "skills")
        assert len(shown) == 3
        for title, said, _, called in shown:
            name, *more = title.split("\n")
            assert f"{name}: {said}" in lines
            assert all(f"    {it}\n" in lines for it in (*more, called)), title

    async def test_shows_the_whole_text_of_one_and_where_it_came_from(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, state):
            SkillStore(state.folder, OWN).propose(SAVED)
            (link,) = re.findall(r'href="[^"]*/(skills/[^"]*)"', await site.text("skills"))
            page = await site.text(link)
        code = re.findall(r"<li>(.*?)</li>", page)
        assert [unescape(it) for it in code] == SKILL.rstrip().split("\n")
        assert "by execution x1" in page


class TestSources:
    async def test_says_what_the_command_says(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        async with pages(tmp_path) as (site, state):
            await fill_files(tmp_path, state, time.time())
            shown = await table(site, "sources")
            lines = await printed(capsys, tmp_path, "sources")
        assert len(shown) == 3
        for tool, labels, holder, _ in shown:
            session, *more = holder.split("\n")
            assert f"{tool}: {labels}" in lines
            assert [it for it in (session, *more) if it not in lines] == []
        assert "changed since: " in shown[-1][2]


class TestWorkspace:
    async def test_lists_the_files_with_their_sizes_and_gives_each(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, state):
            folder = private_subfolder(state.folder, "workspaces", OWN.principal_id)
            (folder / "out").mkdir()
            (folder / "out" / "rows.csv").write_bytes(b"a,b\n" * 5_000)
            (folder / "small").write_bytes(b"")
            page = await site.text("workspace")
            links = re.findall(r'href="[^"]*/(workspace/[^"]*)" download', page)
            got = [await site.get(it) for it in links]
        assert [it[:2] for it in cells(page)] == [["out/rows.csv", "19.5 KiB"], ["small", "0 Bytes"]]
        assert [it.content for it in got] == [b"a,b\n" * 5_000, b""]


class TestAudit:
    async def test_says_what_the_command_says_the_newest_first(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        async with pages(tmp_path) as (site, state):
            await state.execution("x1", PROGRAM, *TRIAGE)
            await state.execution("x9", PROGRAM, principal=OTHER)
            shown = await table(site, "audit")
            lines = (await printed(capsys, tmp_path, "audit")).splitlines()
        assert len(lines) > 10, "control"
        expected = [re.sub(r"^.{7}([\d-]+ [\d:]+) \S+ ", r"\1 ", it) for it in reversed(lines)]
        assert [" ".join(it) for it in shown] == expected

    async def test_older_pages_have_every_row(self, tmp_path: Path) -> None:
        found = []
        async with pages(tmp_path) as (site, state):
            for n in range(220):
                await state.execution(f"x{n:03}", PROGRAM, at=1_700_000_000.0 + n)
            path = "audit"
            while path:
                page = await site.text(path)
                found += cells(page)
                older = re.search(r'rel="next" href="\?([^"]*)"', page)
                path = f"audit?{older[1]}" if older else ""
        started = [name for _, name, said in found if said == "started in microvm"]
        assert sorted(set(started)) == [f"x{n:03}" for n in range(220)]
        assert "Live" not in page, "older rows are not followed"


LOGGED = """\
the end of a record whose beginning was not read
2026-11-30 08:00:01,000 INFO codemode_server.startup.serve: serving
2026-11-30 08:00:02,000 ERROR codemode_server.upstreams.pool: github failed
    Traceback (most recent call last):
    OSError: gone
2026-11-30 08:00:03,000 WARNING asyncio: slow
"""


class TestLog:
    @pytest.mark.parametrize(
        ("shown", "levels"),
        [(LOG.choices[0], ["warning", "error", "info"]), (LOG.choices[1], ["warning", "error"]), ("errors", ["error"])],
    )
    async def test_has_the_newest_records_first_by_level(self, tmp_path: Path, shown: str, levels: list[str]) -> None:
        async with pages(tmp_path) as (site, state):
            replace_private(private_subfolder(state.folder, "logs") / "codemode.log", LOGGED.encode())
            rows = await table(site, f"log?show={shown}")
        assert [it[1] for it in rows] == levels
        at, _, message, part = next(it for it in rows if it[1] == "error")
        assert (at, part) == ("2026-11-30 08:00:02", "upstreams.pool")
        assert message == "github failed\nTraceback (most recent call last):\nOSError: gone"

    async def test_goes_on_in_the_file_that_was_full(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, state):
            logs = private_subfolder(state.folder, "logs")
            replace_private(logs / "codemode.log.1", LOGGED.encode())
            assert len(await table(site, "log")) == 3
            replace_private(logs / "codemode.log", LOGGED.replace("08:", "09:").encode())
            rows = await table(site, "log")
        assert [it[0][11:13] for it in rows] == ["09"] * 3 + ["08"] * 3


async def test_each_page_says_what_would_fill_it(tmp_path: Path) -> None:
    async with pages(tmp_path, servers={}) as (site, _):
        for path in ("tools", "skills", "workspace", "sources", "audit", "log"):
            page = await site.text(path)
            assert 'class="empty"' in page, path
            assert re.search(rf'/{path}" aria-current="page"', page), path
