"""Programs that a person resumes, or lets go on, from the pages of `codemode-server ui`.

Products and upstream are real; the upstream writes each call that it receives to a file, which the tests look at.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from codemode_server.domain.errors import CodemodeError
from codemode_server.web.page_products import PageProduct
from tests.behaviour.product import UPSTREAMS, Host, in_memory
from tests.storage.test_kills import kill, running
from tests.web.pages import Pages, pages

pytestmark = pytest.mark.slow

IMPORTS = "import os, time\nfrom servers.diary import *\n"
BROKEN = "if not os.path.exists('/workspace/mended'):\n    raise RuntimeError('broken')\n"
MEND = "open('/workspace/mended', 'w').close()"
APPROVALS = {"answer_seconds": 1}


@asynccontextmanager
async def site_and_host(folder: Path, **sections: Any) -> AsyncIterator[tuple[Pages, Host]]:
    """The pages, and a product with the server `diary`, on one state folder."""
    async with (
        pages(folder, servers=diary_server(folder), **sections) as (site, _),
        in_memory(folder / "upstream.yaml") as host,
    ):
        yield site, host


def diary_server(folder: Path) -> dict[str, Any]:
    return {"diary": {"command": sys.executable, "args": [str(UPSTREAMS / "diary.py"), str(folder / "diary")]}}


def diary(folder: Path) -> list[str]:
    path = folder / "diary"
    return path.read_text().splitlines() if path.exists() else []


async def waiting(site: Pages, host: Host, code: str) -> tuple[str, str]:
    """The ids of a program that waits for the person, and of its question."""
    answer = await host.run(IMPORTS + code)
    assert answer.content["status"] == "waiting", answer.text
    (question,) = re.findall(r"/approvals/(a\w+)", await site.text("approvals"))
    return answer.content["execution_id"], question


async def resumed_from_the_page(site: Pages, host: Host, name: str) -> str:
    """Send the form *Resume*; gives the page of the execution once its program has ended."""
    assert (await site.post(f"executions/{name}/resume")).status_code == 303
    shown = ""

    async def has_ended() -> bool:
        nonlocal shown
        shown = await site.text(f"executions/{name}")
        return "It runs." not in shown

    await host.until(has_ended, 60)
    assert "Resumed from this page" in shown
    return shown


class TestResume:
    async def test_of_a_program_that_failed_sends_only_what_was_not_sent(self, tmp_path: Path) -> None:
        code = f"{IMPORTS}first = [write(text=f'a{{n}}') for n in range(3)]\n{BROKEN}[*first, write(text='b')]"
        async with site_and_host(tmp_path, permissions={"default": "allow"}) as (site, host):
            name = (await host.run(code)).content["execution_id"]
            assert diary(tmp_path) == ["a0", "a1", "a2"], "control"
            assert f"/executions/{name}/resume" in await site.text(f"executions/{name}")
            await host.run(MEND)
            shown = await resumed_from_the_page(site, host, name)
            assert 'class="status succeeded"' in shown
            assert "/resume" not in shown
            assert diary(tmp_path) == ["a0", "a1", "a2", "b"]

    @pytest.mark.skipif(sys.platform != "linux", reason="kills by number")
    async def test_of_a_program_whose_product_was_killed_sends_only_what_was_not_sent(self, tmp_path: Path) -> None:
        wait = "while not os.path.exists('/workspace/mended'): time.sleep(0.05)\n"
        code = f"write(text='a')\ncount()\n{wait}write(text='b')"
        async with pages(tmp_path, servers=diary_server(tmp_path), permissions={"default": "allow"}) as (site, _):
            path = tmp_path / "upstream.yaml"

            def run_and_kill() -> None:
                with running(path, IMPORTS + code) as process:
                    deadline = time.monotonic() + 60
                    while "(count)" not in diary(tmp_path):
                        assert time.monotonic() < deadline, "the program does not begin"
                        time.sleep(0.01)
                    kill(process)

            await anyio.to_thread.run_sync(run_and_kill)
            assert diary(tmp_path) == ["a", "(count)"]
            (name,) = re.findall(r"<code>(x\w+)</code>", await site.text("executions?status=interrupted"))
            shown = await site.text(f"executions/{name}")
            assert f"/executions/{name}/resume" in shown, "though no product runs that could have recorded it"
            assert f"/executions/{name}/cancel" not in shown
            async with in_memory(path) as host:
                await host.run(MEND)
                shown = await resumed_from_the_page(site, host, name)
            assert 'class="status succeeded"' in shown
            assert diary(tmp_path).count("a") == 1
            assert diary(tmp_path).count("b") == 1, "control"


class TestForTheRestOfThisProgram:
    async def test_later_calls_of_the_program_are_sent_unasked_and_those_of_another_program_are_asked(
        self, tmp_path: Path
    ) -> None:
        permissions = {"rules": [{"ask": "diary/write"}], "default": "allow"}
        code = "[write(text=f'{}{n}') for n in range(3)]"
        async with site_and_host(tmp_path, permissions=permissions, approvals=APPROVALS) as (site, host):
            name, question = await waiting(site, host, code.replace("{}", "a"))
            assert diary(tmp_path) == []
            assert (await site.post(f"approvals/{question}", answer="allow", scope="execution")).status_code == 303
            answer = await host.call("execute_code", resume=name)
            assert answer.value == [1, 2, 3]
            assert diary(tmp_path) == ["a0", "a1", "a2"]
            shown = await site.text(f"executions/{name}")
            approved = f"</span>: approved by the user (page, for the rest of this program, question {question})"
            assert shown.count(approved) == 3, "each call names the answer that let it through"
            assert len(re.findall("waited [^<]* for you", shown)) == 1, "the person was asked about the first one"
            _, other = await waiting(site, host, code.replace("{}", "b"))
            assert other != question
            assert diary(tmp_path) == ["a0", "a1", "a2"], "control: another program is asked"


@pytest.mark.parametrize(
    ("error", "shown"),
    [(ValueError("in s3cret-value"), "internal error (ValueError)"), (CodemodeError("no s3cret-value"), "no ***")],
)
async def test_a_program_that_cannot_run_again_is_reported_without_secrets_and_the_pages_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, shown: str
) -> None:
    async def run_again(*_: object) -> str:
        raise error

    monkeypatch.setattr(PageProduct, "run_again", run_again)
    servers = {"github": {"command": "x", "env": {"API_TOKEN": "s3cret-value"}}}
    async with pages(tmp_path, servers=servers) as (site, state):
        await state.execution("x1", "1 + 1")
        assert (await site.post("executions/x1/replay")).status_code == 303
        with anyio.fail_after(20):
            while "<p>It runs.</p>" in (found := await site.text("executions/x1")):
                await anyio.sleep(0.02)
    assert f"<li>{shown}</li>" in found
