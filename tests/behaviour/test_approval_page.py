"""The person answers on the local page: a real product, and a program in the place of the browser that fetches the page
and sends its form.
"""

from __future__ import annotations

import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from codemode_server.config.live import LiveConfig, RequestContext
from codemode_server.domain.approvals import Approval, ApprovalId, Question
from codemode_server.domain.calls import CallKey
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.input_requests import Feature, InputRequest
from codemode_server.domain.principals import Session
from codemode_server.domain.tools import Effect
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.web.page_channel import PageChannel

from .product import Host, configuration, in_memory, office

CREATE = "from servers.github import create_issue\ncreate_issue(owner='o', repo='r', title='Bug')['number']"
ASK = {"rules": [{"ask": "github/create_issue"}]}
BROWSER = """\
import html, re, sys, urllib.request
page = urllib.request.urlopen(sys.argv[1]).read().decode()
address = html.unescape(re.search('url=([^"]+)"', page)[1])
assert 'github.create_issue' in urllib.request.urlopen(address).read().decode()
urllib.request.urlopen(address, data=sys.argv[2].encode())
"""


def use_browser(monkeypatch: pytest.MonkeyPatch, folder: Path, form: str) -> None:
    """Let the product's browser be a program that sends this form."""
    script = folder / "browser.py"
    script.write_text(BROWSER)
    monkeypatch.setenv("BROWSER", f"{sys.executable} {script} %s {form}")
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    monkeypatch.setattr(webbrowser, "_browsers", {})


class TestAHostThatCanAskNothing:
    async def run(self, folder: Path, **approvals: Any) -> tuple[Host, Any]:
        config = configuration(folder, office(folder, "github"), permissions=ASK, approvals=approvals)
        async with in_memory(config) as host:
            return host, await host.run(CREATE)

    async def test_has_the_page_opened_in_the_users_browser(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        use_browser(monkeypatch, tmp_path, "answer=allow&scope=call")
        host, answer = await self.run(tmp_path)
        assert answer.value == 1
        assert len(host.reached("create_issue")) == 1

    async def test_gets_the_reason_of_the_users_refusal(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        use_browser(monkeypatch, tmp_path, "answer=refuse&reason=tomorrow")
        host, answer = await self.run(tmp_path)
        assert "the user refused it: tomorrow" in answer.text
        assert host.reached("create_issue") == []


@dataclass
class UrlHost:
    """In the place of a host that shows addresses and no forms, which can also decline and cancel."""

    action: str = "accept"
    form: str = "answer=allow&scope=call"
    features: frozenset[Feature] = frozenset({Feature.URL})
    log_level: str | None = None
    address: str = ""

    async def ask(self, request: InputRequest) -> dict[str, Any]:
        self.address = request.params["url"]
        async with httpx2.AsyncClient() as browser:
            if self.action == "accept":
                await browser.post(self.address, content=self.form.encode())
        return {"action": self.action}


class TestAHostThatShowsAddresses:
    async def asked(self, host: UrlHost) -> Any:
        channel, context = PageChannel(LiveConfig()), RequestContext.of(Session("s"), LiveConfig())
        name = ExecutionId("x1")
        question = Question("github", "create_issue", "github.create_issue", Effect.WRITES, "rule 1", {"title": "Bug"})
        key = CallKey("github", "create_issue", "0", 1)
        approval = Approval(ApprovalId("a1"), name, context.principal, "s", key, question, 0.0, 1.0)
        with anyio.fail_after(20):
            return await channel.ask(ExecutionCalls(name, context, host=host), approval)

    async def test_shows_the_address_of_the_page(self) -> None:
        answer = await self.asked(UrlHost())
        assert (answer.is_approved, answer.channel) == (True, "page")

    @pytest.mark.parametrize("action", ["decline", "cancel"])
    async def test_leaves_the_question_to_other_channels_if_the_user_does_not_open_it(self, action: str) -> None:
        host = UrlHost(action)
        assert await self.asked(host) is None
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(host.address)
