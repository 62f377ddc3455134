"""Renews the screenshots of the documentation, from the pages on an example record.

    python -m scripts.screenshots [FOLDER]

Needs Chromium and its driver, as the tests in `tests/web` do.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import anyio
import anyio.to_thread
from PIL import Image

from codemode_server.domain.executions import ExecutionStatus
from tests.web.chromium import Chromium, chromium, why_not
from tests.web.pages import PROGRAM, TRIAGE, Call, State, pages, question

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDE, PHONE = (1200, 760), (390, 760)
_MINUTE = 60.0


async def example(state: State, now: float) -> None:
    """A morning's record."""
    search = Call("search", 20, 140, {"query": "invoice"}, [{"id": "m1"}], server="mail")
    send = Call("send", 400, 310, {"to": "ada@example.org"}, {"id": "m2"}, server="mail")
    code = "from servers.mail import search, send\nfound = search(query='invoice')\nsend(to='ada@example.org')\n"
    for number in range(6):
        at = now - (50 - 6 * number) * _MINUTE
        await state.execution(f"x5e1{number}a07c2b4", code, search, send, at=at, took=760 + 37 * number)
    failed, interrupted = ExecutionStatus.FAILED, ExecutionStatus.INTERRUPTED
    await state.execution("x90d2c4417e0", "1 / 0", at=now - 9 * _MINUTE, took=12, status=failed)
    await state.execution("x77ab10c95fe", code, search, at=now - 8 * _MINUTE, took=400, status=interrupted)
    await state.execution("x3f8e61d2a90", PROGRAM, *TRIAGE, at=now - 5 * _MINUTE, took=2_200)
    await state.execution("xc1b07742d35", code, search, at=now - 4, status=ExecutionStatus.RUNNING)
    await state.question(question(), at=now - 3)


def take(browser: Chromium, base: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, path, size, theme in (
        ("executions-light", "executions", WIDE, "light"),
        ("execution-dark", "executions/x3f8e61d2a90", WIDE, "dark"),
        ("execution-phone", "executions/x3f8e61d2a90", PHONE, "light"),
        ("approval-light", "approvals/a1", WIDE, "light"),
    ):
        browser.resize(*size)
        browser.use_theme(theme)
        browser.open(f"{base}/{path}")
        browser.screenshot(folder / f"{name}.png")
        with Image.open(folder / f"{name}.png") as picture:
            picture.convert("RGB").quantize(64).save(folder / f"{name}.png", optimize=True)


async def main(folder: Path) -> int:
    if reason := why_not():
        print(reason, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as temporary, chromium() as browser:
        servers = {"github": {"command": "github-mcp"}, "mail": {"command": "mail-mcp"}}
        async with pages(Path(temporary), servers=servers, is_entered=False) as (site, state):
            await example(state, time.time())
            await anyio.to_thread.run_sync(browser.open, site.entrance)
            await anyio.to_thread.run_sync(lambda: browser.until("h1", "Executions"))
            base = (await anyio.to_thread.run_sync(lambda: browser.address)).rpartition("/executions")[0]
            await anyio.to_thread.run_sync(take, browser, base, folder)
    return 0


if __name__ == "__main__":
    sys.exit(anyio.run(main, Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
