"""An edited upstream.yaml holds for what follows, without a restart; where it needs one, the log says so. The whole
product, which watches its file."""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from codemode_server.app import App
from codemode_server.config.live import local_principal

from .product import Host, configuration, office, opened

pytestmark = pytest.mark.slow

TWO_CALLS = "from servers.github import list_issues\nlist_issues(repo='{0}'), list_issues(repo='{0}')\nlen('ended')"


def file_of(folder: Path, payloads: str = "shapes", **sections: Any) -> Path:
    state = {"dir": str(folder / "state"), "payloads": payloads}
    return configuration(folder, office(folder, "github"), **{"state": state, **sections})


def product(path: Path) -> AbstractAsyncContextManager[tuple[App, Host]]:
    return opened(path, watch=True)


async def taken_over(app: App) -> None:
    with anyio.fail_after(20):
        await app.config.wait_newer(0)


def on_disk(folder: Path, word: str) -> bool:
    return any(word.encode() in file.read_bytes() for file in (folder / "state").glob("*.db*"))


async def test_an_edited_limit_holds_for_the_next_program(tmp_path: Path) -> None:
    async with product(file_of(tmp_path)) as (app, host):
        assert (await host.run(TWO_CALLS.format("r"))).value == 5
        file_of(tmp_path, limits={"calls": 1})
        await taken_over(app)
        answer = await host.run(TWO_CALLS.format("r"))
        assert "limits.calls" in answer.text
        assert len(host.reached("list_issues")) == 3, "two of the first program, one of the second"


async def test_edited_payloads_hold_for_what_is_recorded_next(tmp_path: Path) -> None:
    async with product(file_of(tmp_path, "all")) as (app, host):
        await host.run(TWO_CALLS.format("needle-before"))
        await host.until(lambda: on_disk(tmp_path, "needle-before"))
        file_of(tmp_path, "none")
        await taken_over(app)
        await host.run(TWO_CALLS.format("needle-after"))
    assert not on_disk(tmp_path, "needle-after")


FIRST, SECOND = "tok-first-5f2c9e7a1b", "tok-second-Z7kQ9xw41L"


def with_token(folder: Path, token: str) -> Path:
    servers = office(folder, "github")
    servers["github"]["env"]["GITHUB_TOKEN"] = token
    return configuration(folder, servers)


async def test_a_secret_that_an_edit_replaces_stays_masked_beside_the_new_one(tmp_path: Path) -> None:
    """A server that had it may still answer with it."""
    code = f"[{FIRST!r}, {SECOND!r}]"
    async with product(with_token(tmp_path, FIRST)) as (app, host):
        assert (await host.run(code)).value == ["***", SECOND], "the control"
        with_token(tmp_path, SECOND)
        await taken_over(app)
        assert (await host.run(code)).value == ["***", "***"]


async def test_the_log_names_the_edited_settings_that_need_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with product(file_of(tmp_path)) as (app, _):
        with caplog.at_level(logging.WARNING):
            edited = {"dir": str(tmp_path / "state"), "payloads": "none"}
            file_of(tmp_path, state=edited, principal="another", sandbox={"warm": 2}, limits={"calls": 3})
            await taken_over(app)
        assert app.config.settings.limits.calls == 3
        assert local_principal(app.config.settings).principal_id == "default", "whose workspace is open already"
    lines = [record.message for record in caplog.records if "next start" in record.message]
    assert lines == ["sandbox.warm, principal: what was edited here is taken over at the next start"]


async def test_an_edit_that_misspells_a_protected_server_is_not_used_and_the_server_stays_protected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with product(file_of(tmp_path, privacy={"servers": {"github": "tokens"}})) as (app, host):
        with caplog.at_level(logging.WARNING):
            file_of(tmp_path, privacy={"servers": {"githb": "tokens"}}, limits={"calls": 3})
            await host.until(lambda: "the edited configuration is not used" in caplog.text)
            assert app.config.settings.privacy.servers == {"github": "tokens"}
            assert "privacy.servers.githb: protects nothing" in caplog.text
            warned = {"servers": {"github": "tokens", "gi?": "block"}}
            file_of(tmp_path, privacy=warned, limits={"calls": 3})
            await taken_over(app)
        assert app.config.settings.limits.calls == 3, "control"
    assert 'privacy.servers."gi?": matches no server' in caplog.text, "what an edit brings is warned of too"
