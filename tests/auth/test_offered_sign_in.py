"""A program that needs a sign-in: the host's user is offered one by URL elicitation, and the program goes on.

The host is a real client of either protocol; the person signs in at a real authorization server, in a real browser's
place, and the redirect comes to the product.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio.to_thread
import mcp_types as types
import pytest

from tests.auth import kit
from tests.behaviour.product import configuration, in_memory

pytestmark = [pytest.mark.slow, pytest.mark.network]

WHO = "from servers.protected import whoami\nreturn whoami()"
both_eras = pytest.mark.parametrize("mode", ["legacy", "auto"])


@dataclass
class Person:
    """Signs in, or does what `action` says; notes what the host showed."""

    action: str = "accept"
    signs_in: bool = True
    seen: list[Any] = field(default_factory=list)

    @property
    def callbacks(self) -> dict[str, Any]:
        return {"elicitation_callback": self.elicit}

    async def elicit(self, _context: Any, params: Any) -> types.ElicitResult:
        self.seen.append(params)
        if self.action == "accept" and self.signs_in:
            with kit.Browser() as browser:
                await anyio.to_thread.run_sync(browser.sign_in, params.url)
        return types.ElicitResult(action=self.action)  # type: ignore[arg-type]


@both_eras
async def test_a_program_that_imports_a_server_without_a_sign_in_goes_on_after_one(
    config: Path, tmp_path: Path, issuing: kit.AuthorizationServer, mode: str
) -> None:
    person = Person()
    async with in_memory(config, mode=mode, **person.callbacks) as host:
        assert (await host.run(WHO)).value == "ada"
        assert (await host.run(WHO)).value == "ada"
    (shown,) = person.seen
    assert shown.mode == "url"
    assert "needs the MCP server 'protected' (127.0.0.1)" in shown.message
    assert f"opens {urlsplit(issuing.issuer).hostname}" in shown.message
    assert kit.stored(tmp_path).issuer == issuing.issuer


@both_eras
async def test_a_sign_in_that_ends_in_the_middle_of_a_program_is_offered_again(
    config: Path, tmp_path: Path, issuing: kit.AuthorizationServer, protected: kit.ProtectedServer, mode: str
) -> None:
    found = await kit.person_signs_in(tmp_path, protected.url)
    person = Person()
    async with in_memory(config, mode=mode, **person.callbacks) as host:
        assert (await host.run(WHO)).value == "ada"  # the control: nobody is asked
        assert person.seen == []
        issuing.revoke(found)
        calls = "from servers.protected import whoami\nimport asyncio\n"
        answer = await host.run(f"{calls}return await asyncio.gather(*[whoami() for _ in range(3)])")
        assert answer.value == ["ada"] * 3
    assert len(person.seen) == 1


@both_eras
async def test_a_user_who_declines_is_not_asked_again_and_the_error_names_the_command(config: Path, mode: str) -> None:
    person = Person("decline")
    async with in_memory(config, mode=mode, **person.callbacks) as host:
        first, second = await host.run(WHO), await host.run(WHO)
    assert "servers.protected: (the user was asked to sign in, and declined)" in first.text
    assert all("codemode-server login protected" in answer.error["message"] for answer in (first, second))
    assert len(person.seen) == 1


async def test_nobody_is_asked_where_the_settings_decline_questions_of_the_server(
    tmp_path: Path, protected: kit.ProtectedServer
) -> None:
    person = Person()
    path = kit.configured(tmp_path, {"protected": {"url": protected.url, "elicitation": "decline"}})
    async with in_memory(path, **person.callbacks) as host:
        assert "codemode-server login protected" in (await host.run(WHO)).error["message"]
    assert person.seen == []


async def test_a_program_that_the_permissions_refuse_offers_no_sign_in(
    config: Path, tmp_path: Path, issuing: kit.AuthorizationServer, protected: kit.ProtectedServer
) -> None:
    found = await kit.person_signs_in(tmp_path, protected.url)
    person = Person()
    async with in_memory(config) as host:
        assert (await host.run(WHO)).value == "ada"  # its tools are known from now on
    issuing.revoke(found)
    servers, rules = {"protected": {"url": protected.url}}, {"rules": [{"deny": "protected"}]}
    denied = configuration(tmp_path, servers, permissions=rules)
    async with in_memory(denied, **person.callbacks) as host:
        assert (await host.run(WHO)).result.is_error
    assert person.seen == []
    async with in_memory(configuration(tmp_path, servers), **person.callbacks) as host:  # the control
        assert (await host.run(WHO)).value == "ada"
