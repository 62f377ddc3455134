"""What the user is shown when a sign-in is offered, and how often. The sign-in is a fake; `tests/auth` has one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import anyio

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.config.settings import ServerSettings, Settings
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.input_requests import Feature, InputRequest
from codemode_server.domain.principals import Principal, Session
from codemode_server.features.sign_in.sign_in_offers import OfferOutcome, SignInOffers
from codemode_server.upstreams.auth.redirect_listener import RedirectListener
from codemode_server.upstreams.auth.sign_ins import Show

GOOD = "https://auth.example/authorize?state=s"


@dataclass
class FakeHost:
    action: str = "accept"
    features: frozenset[Feature] = frozenset({Feature.URL})
    seen: list[Mapping[str, Any]] = field(default_factory=list)
    log_level: str | None = None
    is_silent: bool = False
    """The user does not answer."""

    async def ask(self, request: InputRequest) -> dict[str, Any]:
        self.seen.append(request.params)
        if self.is_silent:
            await anyio.sleep_forever()
        return {"action": self.action}


@dataclass
class FakeSignIn:
    """Shows this address, and is signed in once the user accepts."""

    address: str = GOOD
    is_done: bool = False

    async def sign_in(self, server: str, show: Show) -> None:
        if not self.is_done:
            await show(self.address, RedirectListener("http://127.0.0.1:1/callback"))
            self.is_done = True


def offers(fake: FakeSignIn, clock: list[float] | None = None) -> SignInOffers:
    servers = {"linear": ServerSettings.model_validate({"url": "https://mcp.linear.example/mcp"})}
    now = clock or [0.0]
    return SignInOffers(cast("Any", fake), LiveConfig(Settings(servers=servers)), clock=lambda: now[0])


def calls(host: FakeHost) -> ExecutionCalls:
    context = Caller(Principal(PrincipalId("default")), Session("s"), LiveConfig())
    return ExecutionCalls(ExecutionId("x1"), context, host=host)


async def test_a_host_that_looks_like_another_is_shown_in_ascii() -> None:
    host = FakeHost()
    await offers(FakeSignIn("https://аpple.com/authorize?state=s")).offer(calls(host), "linear")
    assert "opens xn--pple-43d.com." in host.seen[0]["message"]
    assert host.seen[0]["url"] == "https://xn--pple-43d.com/authorize?state=s"


async def test_a_host_without_url_elicitation_is_not_asked() -> None:
    host = FakeHost(features=frozenset({Feature.ELICITATION}))
    assert await offers(FakeSignIn()).offer(calls(host), "linear") is OfferOutcome.NONE
    assert host.seen == []


async def test_after_a_refusal_no_program_asks_again_for_ten_minutes() -> None:
    clock, host = [0.0], FakeHost("decline")
    offering = offers(FakeSignIn(), clock)
    assert await offering.offer(calls(host), "linear") is OfferOutcome.DECLINED
    clock[0] = 599.0
    assert await offering.offer(calls(host), "linear") is OfferOutcome.NONE
    clock[0] = 601.0
    assert await offering.offer(calls(host), "linear") is OfferOutcome.DECLINED
    assert len(host.seen) == 2
