"""What a privacy token stands for, against other pages, other principals, and whatever stores or logs a page.

Each attack has its control: the person's own form shows the value.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from codemode_server.domain.executions import ExecutionStatus
from codemode_server.storage.database import FILE_NAME
from tests.web.pages import OTHER, OWN, State, pages

pytestmark = pytest.mark.page_attack
VALUE = "ann.secret@example.org"
REVEAL = "privacy/EMAIL_1"


async def times_shown(state: State) -> int:
    return len([row for row in await state.audit.rows(OWN) if row.event.kind == "privacy_shown"])


def files_with_the_value(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and VALUE.encode() in path.read_bytes()]


async def test_a_token_of_another_principal_is_no_token(tmp_path: Path) -> None:
    async with pages(tmp_path) as (site, state):
        await state.privacy_token("own@example.org")
        await state.privacy_token("first@example.org", principal=OTHER)
        await state.privacy_token(VALUE, principal=OTHER)
        refused = await site.post("privacy/EMAIL_2")
        never = await site.post("privacy/EMAIL_3")
        assert refused.status_code == never.status_code == 409
        assert refused.text.replace("EMAIL_2", "EMAIL_3") == never.text, "nothing says that there is one"
        assert VALUE not in refused.text
        assert await times_shown(state) == 0
        own = await site.post(REVEAL)
        assert "own@example.org" in own.text, "control"
        assert "first@example.org" not in own.text


async def test_a_value_is_not_shown_if_it_can_not_be_recorded(tmp_path: Path) -> None:
    async with pages(tmp_path) as (site, state):
        await state.privacy_token(VALUE)
        with closing(sqlite3.connect(tmp_path / "state" / FILE_NAME)) as database:
            database.execute("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(FAIL, 'no'); END")
            refused = await site.post(REVEAL)
            database.execute("DROP TRIGGER full")
        assert refused.status_code == 409
        assert VALUE not in refused.text
        assert VALUE in (await site.post(REVEAL)).text, "control"


async def test_a_value_stays_in_no_address_cache_log_record_or_fetched_page(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with pages(tmp_path) as (site, state):
        token = await state.privacy_token(VALUE)
        await state.execution("x1", f"send('{token}')", at=time.time(), status=ExecutionStatus.RUNNING)
        assert "live.js" in await site.text("executions/x1"), "control"
        shown = await site.post(REVEAL)
        assert VALUE in shown.text, "control"
        assert shown.headers["cache-control"] == "no-store"
        assert "location" not in shown.headers
        assert "live.js" not in shown.text, "the script would send the request again"
        for path in ("executions", "executions/x1", REVEAL, "approvals"):
            answer = await site.get(path)
            assert VALUE not in answer.text, "what the script fetches"
            assert answer.headers["cache-control"] == "no-store"
    assert VALUE not in caplog.text
    assert files_with_the_value(tmp_path) == []
