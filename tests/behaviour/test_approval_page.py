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

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.approvals import Approval, ApprovalId, Question
from codemode_server.domain.calls import CallKey
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.input_requests import Feature, InputRequest
from codemode_server.domain.principals import Session
from codemode_server.domain.tools import Effect
from codemode_server.features.pages.page_channel import PageChannel

from .product import configuration, in_memory, office

CREATE = "from servers.github import create_issue\ncreate_issue(owner='o', repo='r', title='Bug')['url']"
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


@pytest.mark.parametrize(
    ("form", "says", "sent"),
    [
        ("answer=allow&scope=call", "https://github.example/o/r/issues/1", 1),
        ("answer=refuse&reason=tomorrow", "the user refused it: tomorrow", 0),
    ],
    ids=["allowed", "refused"],
)
async def test_a_host_that_can_ask_nothing_has_the_page_opened_in_the_users_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, says: str, sent: int
) -> None:
    use_browser(monkeypatch, tmp_path, form)
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"), permissions=ASK)) as host:
        assert says in (await host.run(CREATE)).text
    assert len(host.reached("create_issue")) == sent


@dataclass
class UrlHost:
    """In the place of a host that shows addresses and no forms, which can also decline and cancel."""

    action: str
    features: frozenset[Feature] = frozenset({Feature.URL})
    log_level: str | None = None
    address: str = ""

    async def ask(self, request: InputRequest) -> dict[str, Any]:
        self.address = request.params["url"]
        async with httpx2.AsyncClient() as browser:
            if self.action == "accept":
                await browser.post(self.address, content=b"answer=allow&scope=call")
        return {"action": self.action}


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_a_host_that_shows_addresses_shows_that_of_the_page_and_other_channels_go_on_if_nobody_opens_it(
    action: str,
) -> None:
    host, context = UrlHost(action), Caller.of(Session("s"), LiveConfig())
    name = ExecutionId("x1")
    question = Question("github", "create_issue", "github.create_issue", Effect.WRITES, "rule 1", {"title": "Bug"})
    approval = Approval(
        ApprovalId("a1"), name, context.principal, "s", CallKey("github", "create_issue", "0", 1), question, 0.0, 1.0
    )
    with anyio.fail_after(60):
        answer = await PageChannel(LiveConfig()).ask(ExecutionCalls(name, context, host=host), approval)
    assert (answer is not None and answer.is_approved) is (action == "accept")
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(host.address)
